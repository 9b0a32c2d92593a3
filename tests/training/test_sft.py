"""SFT: the trainer's loop on demonstrations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from adaplan_envs.errors import ConfigError
from adaplan_training.trainer import Trainer, train
from tests.training.test_trainer import numbers, recipe
from tests.training.tiny import BEST


def demonstrations(folder: Path) -> str:
    """Write what a good player of the bandit says, in the common chat format."""
    path = folder / "chats.jsonl"
    lines = [
        {"messages": [{"role": "user", "content": letter}, {"role": "assistant", "content": BEST}]} for letter in "abcd"
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def imitation(folder: Path, **parts: Any) -> Any:
    stages = [{"epochs": 15, "roles": ["executor"]}]
    data = {"files": [demonstrations(folder)], "batch": 3}
    return recipe(folder, **{"algorithm": "sft", "data": data, "stages": stages, "eval": {"every": 10}, **parts})


def test_a_model_learns_what_is_demonstrated(tmp_path: Path) -> None:
    result = train(imitation(tmp_path))
    lines = result.metrics
    assert len(lines) == 1 + 20  # 15 epochs of 4 demonstrations, 3 a step
    assert lines[1]["loss"] > 5 > 1 > lines[-1]["loss"]
    assert lines[1]["tokens/trained"] == 3 * 2  # the answer and the token that ends it
    assert lines[0]["eval/success"] == 0.0
    assert lines[-1]["eval/success"] == result.best == 1.0


def test_a_run_that_broke_off_goes_on_to_the_same_numbers(tmp_path: Path) -> None:
    whole = train(imitation(tmp_path, out=str(tmp_path / "whole")))

    def crash(step: int, steps: int, metrics: Any) -> None:
        if step == 7:
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        train(imitation(tmp_path), on_step=crash)
    assert numbers(train(imitation(tmp_path), resume=True).path) == numbers(whole.path)


def test_the_batch_does_not_depend_on_how_it_is_cut(tmp_path: Path) -> None:
    losses = []
    for tokens in (5, 1000):
        trainer = Trainer(imitation(tmp_path, optim={"lr": 0.0, "batch_tokens": tokens}))
        losses.append(trainer.learner.step(0, 0.0)["loss"])  # type: ignore[union-attr, call-arg, arg-type]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


def test_nothing_to_imitate_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing to train on"):
        Trainer(imitation(tmp_path, stages=[{"epochs": 1, "roles": ["planner"]}]))
    with pytest.raises(ConfigError, match="missing"):
        Trainer(imitation(tmp_path, data={"files": [str(tmp_path / "missing.jsonl")]}))
