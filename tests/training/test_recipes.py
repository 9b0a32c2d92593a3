"""The recipes in the box: what they promise, and that every one runs, with the model swapped for a tiny one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from adaplan_envs.errors import ConfigError
from adaplan_training.dryrun import describe_run
from adaplan_training.metrics import short
from adaplan_training.recipe import load_recipe, recipe_names
from adaplan_training.rollout import Collector
from adaplan_training.trainer import Trainer
from tests.training.tiny import save_tiny

SMALL = [
    "model.precision=float32",
    "model.sampler=same",
    "model.device=cpu",
    "model.gradient_checkpointing=false",
    "agent.turn_tokens=2",
    "agent.episode_tokens=8192",
    "rollout.group_size=2",
    "rollout.max_steps=1",
    "rollout.concurrency=4",
    "optim.batch_tokens=8192",
]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny(tmp_path_factory.mktemp("model"), window=8192)


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_dry_runs_with_a_tiny_model(name: str, tiny: str, tmp_path: Path) -> None:
    overrides = [*SMALL, f"model.spec={tiny}", f"out={tmp_path / 'run'}"]
    config = load_recipe(name)
    if config.algorithm == "sft":
        chat = '{"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Action: look"}]}\n'
        (tmp_path / "demos.jsonl").write_text(4 * chat)
        overrides.append(f"data.files=[{tmp_path / 'demos.jsonl'}]")
    else:  # the tasks of one environment: those of all are counted in a test of their own
        overrides.append(f"rollout.envs={config.rollout.envs.split(',')[-1]}")
    if config.agent.executor is not None:
        overrides.append(f"agent.executor={tiny}")
    if "planner" in config.agent.settings:
        overrides.append(f"agent.settings.planner={tiny}")
    rows = dict(describe_run(Trainer(load_recipe(name, overrides))))
    assert {"model", "memory", "measured", "time", *(f"stage {stage.name}" for stage in config.stages)} <= set(rows)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("paper/pilotrl", "hf:Qwen/Qwen2.5-7B-Instruct"),
        ("paper/pilotrl-llama3.1", "hf:meta-llama/Llama-3.1-8B-Instruct"),
        ("paper/pilotrl-qwen3", "hf:Qwen/Qwen3-8B"),
    ],
)
def test_pilotrl_has_the_paper_s_models_and_numbers(name: str, model: str) -> None:
    config = load_recipe(name)
    rollout = config.rollout
    assert config.model.spec == model
    assert (rollout.groups, rollout.mini_batch, rollout.group_size) == (256, 64, 16)
    assert (config.optim.lr, config.agent.temperature, config.loss.kl_weight) == (1e-6, 1.0, 0.0)
    assert [(stage.name, stage.epochs) for stage in config.stages] == [("1", 1), ("2", 2), ("3", 1)]
    assert config.loss.clip_high > config.loss.clip_low
    assert (config.reward.overlong_buffer, config.agent.episode_tokens) == (3072, 14336)


def test_isolated_models_have_two_epochs_each_and_train_their_own_tokens() -> None:
    for scale in ("paper", "tiny"):
        planner, executor = load_recipe(f"{scale}/planner"), load_recipe(f"{scale}/executor")
        assert [(stage.epochs, stage.roles) for stage in planner.stages] == [(2, ["planner"])]
        assert [(stage.epochs, stage.roles) for stage in executor.stages] == [(2, ["executor"])]
        assert planner.agent.executor is not None
        assert executor.agent.settings["planner"] == f"hf:{planner.out}/checkpoints/last"


def test_baselines_differ_from_pilotrl_in_agent_and_stages_alone() -> None:
    for scale in ("paper", "tiny"):
        pilot = load_recipe(f"{scale}/pilotrl")
        for name in ("grpo", "mpo"):
            other = load_recipe(f"{scale}/{name}")
            for part in ("model", "rollout", "loss", "optim", "reward"):
                assert getattr(other, part) == getattr(pilot, part), (name, part)
            assert sum(stage.epochs or 0 for stage in other.stages) == 4


def test_the_paper_s_training_tasks_are_as_many_as_in_its_table_5() -> None:
    pytest.importorskip("alfworld")
    collector = Collector(load_recipe("paper/pilotrl", ["rollout.concurrency=1"]).rollout)
    counts = Counter(short(task.env_id) for task in collector.tasks())
    collector.close()
    assert counts == {"alfworld": 3000, "iqa": 1465, "textcraft": 400, "wordle": 860}


def test_a_recipe_extends_another_and_says_so_where_it_can_t(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("extends: tiny/pilotrl\noptim: {clip: 0.5}\nstages: [1, 3]\n")
    mine, base = load_recipe(tmp_path / "mine.yaml"), load_recipe("tiny/pilotrl")
    assert (mine.optim.clip, mine.optim.lr) == (0.5, base.optim.lr)
    assert [stage.epochs for stage in mine.stages] == [2, 2]
    (tmp_path / "loop.yaml").write_text(f"extends: {tmp_path / 'loop.yaml'}\n")
    with pytest.raises(ConfigError, match="extends itself"):
        load_recipe(tmp_path / "loop.yaml")
