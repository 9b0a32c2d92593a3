"""Would a wrong sign, a wrong mask or a wrong ratio be noticed? Small runs whose outcome is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from adaplan_training.recipe import from_dict
from adaplan_training.trainer import Result, Trainer
from tests.training.tiny import BANDIT, save_tiny


def run(folder: Path, agent: str = "Terse", steps: int = 30, **parts: Any) -> tuple[Result, Trainer]:
    """Train a tiny model on the bandit."""
    record: dict[str, Any] = {
        "model": {"spec": save_tiny(folder / "model"), "device": "cpu"},
        "agent": {"name": f"tests.training.tiny:{agent}", "turn_tokens": 1, "episode_tokens": 64},
        "rollout": {"envs": BANDIT, "groups": 4, "group_size": 32, "concurrency": 128},
        "stages": [{"steps": steps, "roles": ["executor"], "rewards": {"score": 1}}],
        "optim": {"lr": 0.005},
        "log": {"tensorboard": False, "checkpoint_every": 1000},
        "out": str(folder / "run"),
    }
    for name, values in parts.items():
        record[name] = {**record[name], **values} if isinstance(values, dict) and name in record else values
    trainer = Trainer(from_dict(record))
    return trainer.run(), trainer


@pytest.mark.slow
def test_a_bandit_is_played_to_99_percent_of_the_best_possible(tmp_path: Path) -> None:
    result, _ = run(tmp_path, steps=70, eval={"every": 70, "episodes": 4})
    last = result.metrics[-1]
    assert last["eval/success"] == 1.0
    assert last["reward"] >= 0.99
    assert result.metrics[1]["reward"] < 0.6
    assert last["groups/dead"] >= 1  # equal rewards: such a group has nothing to teach


@pytest.mark.slow
def test_reward_on_the_wrong_tokens_does_not_teach(tmp_path: Path) -> None:
    # What is rewarded is the executor's answer; what is trained is the planner's, which changes nothing.
    roles = [{"steps": 25, "roles": ["planner"], "rewards": {"score": 1}}]
    wrong, _ = run(tmp_path / "wrong", "Chatty", stages=roles)
    right, _ = run(tmp_path / "right", "Chatty", steps=25)

    def end(result: Result) -> float:
        return float(sum(line["reward"] for line in result.metrics[-5:]) / 5)

    def start(result: Result) -> float:
        return float(sum(line["reward"] for line in result.metrics[1:4]) / 3)

    assert end(right) - start(right) > 0.2
    assert abs(end(wrong) - start(wrong)) < 0.08


@pytest.mark.slow
def test_kl_pulls_back_to_the_reference(tmp_path: Path) -> None:
    free, _ = run(tmp_path / "free", steps=15, loss={"kl_weight": 1e-9})
    held, _ = run(tmp_path / "held", steps=15, loss={"kl_weight": 10.0})
    assert free.metrics[-1]["kl"] > 0.1
    assert 0 <= held.metrics[-1]["kl"] < 0.25 * free.metrics[-1]["kl"]


@pytest.mark.parametrize("precision", ["float32", "mixed"])
def test_a_policy_that_does_not_move_has_ratio_exactly_one(precision: str, tmp_path: Path) -> None:
    result, _ = run(
        tmp_path,
        steps=3,
        optim={"lr": 0.0, "batch_tokens": 50},
        rollout={"mini_batch": 1},
        model={"spec": save_tiny(tmp_path / "model"), "precision": precision},
    )
    for line in result.metrics[1:]:
        assert line["updates"] >= 3
        assert line["ratio"] == pytest.approx(1.0, abs=1e-6)  # weights are float32 and add up to 1 within 1e-7
        assert line["policy_kl"] == 0.0
        assert line["clip_fraction"] == 0.0


def test_mini_batches_move_the_ratio_off_one_and_the_clip_bites(tmp_path: Path) -> None:
    result, _ = run(tmp_path, steps=6, rollout={"mini_batch": 1}, optim={"lr": 0.03})
    assert any(line["policy_kl"] > 1e-4 for line in result.metrics[1:])
    assert any(line["clip_fraction"] > 0 for line in result.metrics[1:])


def test_the_sampler_in_bfloat16_is_corrected_for(tmp_path: Path) -> None:
    spec = save_tiny(tmp_path / "model")
    result, _ = run(tmp_path, steps=2, model={"spec": spec, "sampler": "bfloat16"})
    assert 0 < result.metrics[1]["mismatch"] < 1e-2
    assert result.metrics[1]["importance"] == pytest.approx(1.0, abs=0.05)
