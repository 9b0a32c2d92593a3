"""Recipes: what they may hold, and what is said of those that hold something else."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from adaplan_envs.errors import ConfigError, UnknownNameError
from adaplan_training.recipe import from_dict, load_recipe, recipe_names, to_dict

MODEL = {"model": {"spec": "hf:x"}}


def test_every_built_in_recipe_is_read_and_written_alike() -> None:
    assert {"tiny/maze-grpo", "tiny/maze-sft", "paper/sft", "paper/grpo"} <= set(recipe_names())
    for name in recipe_names():
        config = load_recipe(name)
        assert from_dict(yaml.safe_load(yaml.safe_dump(to_dict(config)))) == config


def test_the_paper_s_settings_are_in_its_recipes() -> None:
    sft, grpo = load_recipe("paper/sft"), load_recipe("paper/grpo")
    assert (sft.optim.lr, sft.optim.warmup, sft.optim.schedule, sft.optim.weight_decay) == (2e-5, 0.03, "cosine", 0.0)
    assert (sft.data.batch, sft.stages[0].epochs) == (256, 4)
    assert (grpo.rollout.groups, grpo.rollout.mini_batch, grpo.rollout.group_size) == (256, 64, 16)
    assert (grpo.optim.lr, grpo.loss.kl_weight, grpo.reward.overlong_buffer) == (1e-6, 0.0, 3072)


def test_overrides_reach_every_depth(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("model: {spec: hf:x}\nstages: [{steps: 3}, {steps: 4, roles: [planner]}]\n")
    config = load_recipe(
        path,
        [
            "optim.lr=1e-5",
            "stages.1.steps=9",
            "stages.0.rewards={success: 2}",
            "agent.settings.replan=deviation",
            "loss.importance_cap=null",
            "optim.betas=[0.9, 0.95]",
        ],
    )
    assert config.optim.lr == 1e-5
    assert [stage.steps for stage in config.stages] == [3, 9]
    assert config.stages[0].rewards == {"success": 2.0}
    assert config.stages[1].roles == ["planner"]
    assert config.agent.settings == {"replan": "deviation"}
    assert config.loss.importance_cap is None
    assert config.optim.betas == (0.9, 0.95)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("optim.learning_rate=1", "did you mean|Valid: .*'lr'"),
        ("optin.lr=1", "did you mean 'optim'"),
        ("stages.0.step=1", "did you mean 'steps'"),
        ("stages.7.steps=1", "entries 0 to 0"),
        ("loss.aggregation=tokenmean", "did you mean 'token_mean'"),
        ("model.precision=fp16", "Valid: 'bfloat16', 'float32', 'mixed'"),
        ("optim.lr=fast", "optim.lr is 'fast'; it must be float"),
        ("rollout.groups=2.5", "rollout.groups is 2.5; it must be int"),
        ("rollout.group_size=1", "2 or more"),
        ("rollout.groups=true", "must be int"),
        ("agent.temperature=0", "above 0"),
        ("agent.settings.top_p=0.9", "whole distribution"),
        ("stages.0.epochs=1", "either epochs or steps"),
        ("stages.0.rewards={format: 0}", "nothing could be learned"),
        ("algorithm=sft", "data.files is empty"),
        ("optim.lr.x=1", "has no parts"),
        ("nonsense", "form key=value"),
        ("optim.lr=[", "not valid YAML"),
    ],
)
def test_a_wrong_key_or_value_names_the_right_one(override: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("model: {spec: hf:x}\noptim: {lr: 1}\nstages: [{steps: 3}]\n")
    with pytest.raises(ConfigError, match=message):
        load_recipe(path, [override])


def test_an_unknown_recipe_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'tiny/maze-grpo'"):
        load_recipe("tiny/maze-grp")


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ConfigError, match="the recipe lacks model"):
        from_dict({})
    with pytest.raises(ConfigError, match="model lacks spec"):
        from_dict({"model": {}})
    with pytest.raises(ConfigError, match="must hold settings"):
        from_dict({"model": "hf:x"})
    with pytest.raises(ConfigError, match="stages is empty"):
        from_dict({**MODEL, "stages": []})
