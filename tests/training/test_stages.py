"""Stages: what the names of a recipe stand for, who plays in them, and what their stored trajectories prove."""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from adaplan_agents import Plan
from adaplan_agents.adaplan import AdaPlanAgent
from adaplan_agents.baselines import MPOAgent
from adaplan_envs.errors import ConfigError, UnknownNameError
from adaplan_evaluation.judges import TERMS, FrontierPlans
from adaplan_evaluation.types import Episode
from adaplan_training.check_run import broken_steps, check_run
from adaplan_training.commands_study import CHECK_RUN
from adaplan_training.config import Stage, TrainConfig
from adaplan_training.grpo import GRPO
from adaplan_training.metrics import read_metrics
from adaplan_training.recipe import from_dict, load_recipe
from adaplan_training.rollout import Group
from adaplan_training.stages import STAGES, schedule
from adaplan_training.trainer import Trainer, train
from tests.training.tiny import BANDIT, save_tiny


def stages(*entries: Any) -> list[Stage]:
    return from_dict({"model": {"spec": "hf:x"}, "stages": list(entries)}).stages


def recipe(folder: Path, **parts: Any) -> TrainConfig:
    """A short run of AdaPlan on the bandit; `parts` replace its parts."""
    if not (folder / "model").exists():
        save_tiny(folder / "model")
    record: dict[str, Any] = {
        "model": {"spec": f"hf:{folder / 'model'}", "device": "cpu"},
        "agent": {"name": "adaplan", "turn_tokens": 4, "episode_tokens": 1024},
        "plans": {"candidates": 2},
        "rollout": {"envs": BANDIT, "groups": 1, "group_size": 2},
        "stages": [{"stage": name, "steps": 1} for name in (1, 2, 3)],
        "eval": {"every": 2, "episodes": 2},
        "log": {"tensorboard": False, "episodes_every": 1},
        "out": str(folder / "run"),
    }
    for name, values in parts.items():
        record[name] = {**record[name], **values} if isinstance(values, dict) and name in record else values
    return from_dict(record)


def test_the_paper_s_stages_have_its_terms_sources_and_epochs() -> None:
    first, second, third = stages(1, 2, 3)
    assert [stage.epochs for stage in (first, second, third)] == [1, 2, 1]
    assert [stage.plans for stage in (first, second, third)] == ["frontier", "select", "own"]
    trained = [{name for name, weight in stage.rewards.items() if weight} for stage in (first, second, third)]
    assert trained == [{"format", "adherence", "e2e"}, {"format", "e2e", "plan_quality"}, {"format", "e2e"}]
    assert all(set(stage.rewards) == set(TERMS) for stage in (first, second, third))
    assert first.roles == ["executor"] and second.roles == third.roles == ["planner", "executor"]


@pytest.mark.parametrize("entries", [(1, 2, 3), ("1&2&3",), (2, 3), (1, 3), (1, 2), (2, 1, 3), (3,), ("1 & 3", 2)])
def test_every_order_and_subset_takes_as_many_epochs_in_the_paper_s_proportions(entries: tuple[Any, ...]) -> None:
    found = stages(*entries)
    assert sum(stage.epochs or 0 for stage in found) == pytest.approx(4)
    ratios = {(stage.epochs or 0) / (STAGES[stage.name].epochs or 1) for stage in found}
    assert max(ratios) == pytest.approx(min(ratios))


def test_an_own_length_is_kept_and_ends_the_scaling() -> None:
    first, third = stages({"stage": 1, "steps": 5}, 3)
    assert (first.steps, first.epochs, third.epochs) == (5, None, 1)


def test_a_named_stage_takes_changes() -> None:
    (only,) = stages({"stage": 2, "rewards": {"adherence": 0.5}, "agent": {"replan": 3}})
    assert only.rewards == {**STAGES["2"].rewards, "adherence": 0.5}
    assert (only.agent, only.plans) == ({"replan": 3}, "select")


def test_overrides_reach_into_named_stages_and_replace_them() -> None:
    assert load_recipe("paper/pilotrl", ["stages.1.rewards.adherence=1"]).stages[1].rewards["adherence"] == 1
    assert [stage.name for stage in load_recipe("paper/pilotrl", ["stages=[2,1,3]"]).stages] == ["2", "1", "3"]
    assert [stage.joint for stage in load_recipe("paper/pilotrl", ["stages=1&2&3"]).stages] == [False, True, True]


@pytest.mark.parametrize(
    ("entry", "error", "message"),
    [
        (4, UnknownNameError, "unknown stage '4'.*'1', '2', '3'"),
        ("1&5", UnknownNameError, "unknown stage '5'"),
        (True, ConfigError, "stages.0 is True"),
        ([1], ConfigError, "stages.0 is"),
        ({"name": "x", "steps": 1, "joint": True}, ConfigError, "no stage before it"),
        ({"stage": 1, "plan": "own"}, UnknownNameError, "did you mean 'plans'"),
        ({"name": "x", "steps": 1, "plans": "selected"}, UnknownNameError, "did you mean 'select'"),
    ],
)
def test_a_wrong_stage_is_refused_with_what_is_right(entry: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        stages(entry)


def test_joint_stages_alternate_evenly_and_others_follow() -> None:
    chosen = [Stage("a", steps=2), Stage("b", steps=4, joint=True), Stage("c", steps=1)]
    order = [stage.name for stage in schedule(chosen, lambda stage: stage.steps or 0)]
    assert sorted(order[:6]) == list("aabbbb") and order[6] == "c"
    assert sorted(order[:3]) == list("abb") and sorted(order[3:6]) == list("abb")


def test_each_stage_has_its_plans_and_evaluation_none_of_them(tmp_path: Path) -> None:
    config = recipe(tmp_path, plans={"frontier": "scripted:tests.training.test_stages:PLANS"})
    trainer = Trainer(config)
    agents = [trainer.agent(stage) for stage in [*config.stages, None]]
    assert all(isinstance(agent, AdaPlanAgent) and agent.model is trainer.policy.chat for agent in agents)
    first, greedy = agents[0], agents[-1]
    assert isinstance(first.plan_source, FrontierPlans) and first is trainer.agent(config.stages[0])  # type: ignore[attr-defined]
    assert [agent.candidates for agent in agents] == [1, 2, 1, 1]  # type: ignore[attr-defined]
    assert greedy.plan_source is None and greedy.sampling.temperature == 0  # type: ignore[attr-defined]
    assert Trainer(recipe(tmp_path)).agent(config.stages[0]).plan_source == "expert"  # type: ignore[attr-defined]


PLANS = ["1. Say i."] * 99


@pytest.mark.parametrize("frontier", ["expert", "scripted:tests.training.test_stages:PLANS"])
def test_three_stages_log_every_term_and_their_trajectories_prove_it(frontier: str, tmp_path: Path) -> None:
    buffer = 1000 if frontier == "expert" else 0
    result = train(recipe(tmp_path, plans={"frontier": frontier}, reward={"overlong_buffer": buffer}))
    lines = [line for line in result.metrics if "stage" in line]
    assert all((line.get("reward/overlong", 0) < 0) == bool(buffer) for line in lines)
    assert [line["stage"] for line in lines] == ["1", "2", "3"]
    assert all(f"reward/{term}" in line for line in lines for term in TERMS)
    first = (result.path / "rollouts" / "step-000001.jsonl").read_text().splitlines()
    assert {Episode.from_json(line).turns[0].plan for line in first} == {("Say i.",)}
    check = check_run(result.path)
    assert check.wrong == [] and check.values >= 3 * 6 and check.episodes >= 6

    def edit(line: dict[str, Any]) -> dict[str, Any]:
        return line | {"reward/format": 0.123} if line["step"] == 2 else line

    path = result.path / "metrics.jsonl"
    path.write_text("".join(json.dumps(edit(line)) + "\n" for line in read_metrics(path)))
    (wrong,) = check_run(result.path).wrong
    assert "reward/format" in wrong and "0.123" in wrong
    assert check_run(result.path, rewards=False).wrong == []


def episode(plans: list[tuple[str, ...]], folder: Path) -> Episode:
    """An episode of the bandit's format with these plans, turn by turn."""
    turn: dict[str, Any] = {
        "observation": "", "raw": "", "thought": None, "action": "x", "command": "x", "action_status": "ok",
        "plan_step": None, "well_formed": True, "score": 0.0, "usage": {}, "trace": [],
    }  # fmt: skip
    record = {
        "env_id": BANDIT, "task_id": "bandit/test/0000", "repeat": 0, "seed": 0, "goal": "", "success": False,
        "score": 0.0, "steps": len(plans), "max_steps": 9, "expert_steps": 1, "stop_reason": "max_steps",
        "statuses": {}, "well_formed": 1, "usage": {}, "seconds": 0.0, "error": None,
        "turns": [{**turn, "plan": plan} for plan in plans],
    }  # fmt: skip
    line = json.dumps(record)
    folder.mkdir(exist_ok=True)
    (folder / "episodes.jsonl").write_text(line + "\n")
    return Episode.from_json(line)


def test_plans_that_keep_eq_1_pass_and_one_that_rewrites_history_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, fine = Plan(("a", "b", "c")), []
    for proposed in (("b", "c"), ("x", "y"), ()):
        fine.append(plan.steps)
        plan = plan.advance().revise(plan.done + 1, proposed)
    assert broken_steps(episode([*fine, plan.steps], tmp_path / "fine")) == []
    bad = episode([("a", "b", "c"), ("a", "x"), ("a", "y", "z")], tmp_path / "bad")
    assert broken_steps(bad) == ["turn 3 changes step 2, which was history (Eq. 1)"]
    assert broken_steps(episode([("a", "b"), ()], tmp_path / "bad")) != []
    parser = argparse.ArgumentParser()
    CHECK_RUN.configure(parser)
    assert CHECK_RUN.run(parser.parse_args([str(tmp_path / "fine")])) == 0
    assert CHECK_RUN.run(parser.parse_args([str(tmp_path)])) == 1
    assert "changes step 1" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="episodes_every"):
        check_run(tmp_path / "nothing")


def sampled(trainer: Trainer) -> list[Group]:
    """The groups of a run's first step."""
    stage = trainer.schedule[0]
    assert isinstance(trainer.learner, GRPO)
    return asyncio.run(trainer.learner.sample(trainer.agent(stage), stage, 0))


@pytest.mark.parametrize("place", ["run", "stage"])
def test_answers_held_to_a_list_are_not_trained_on(place: str) -> None:
    held = {"admissible": True}
    record = {
        "model": {"spec": "smollm2"},
        "agent": {"name": "naive", "settings": held if place == "run" else {}},
        "stages": [{"steps": 1, "agent": held if place == "stage" else {}}],
    }
    with pytest.raises(ConfigError, match="leave it out of training"):
        from_dict(record)
    imitation = {**record, "algorithm": "sft", "data": {"files": ["demos.jsonl"]}}
    assert from_dict(imitation).algorithm == "sft"  # it plays in evaluation alone


def test_a_frozen_executor_leaves_the_planner_to_be_trained(tmp_path: Path) -> None:
    frozen = save_tiny(tmp_path / "frozen", seed=7)
    for name in ("adaplan", "mpo"):
        stage = {"name": "planner", "steps": 1, "roles": ["planner"], "rewards": {"score": 1, "e2e": 0}}
        config = recipe(tmp_path, agent={"name": name, "executor": frozen}, stages=[stage], out=str(tmp_path / name))
        trainer = Trainer(config)
        agent = trainer.agent(config.stages[0])
        assert isinstance(agent, (AdaPlanAgent, MPOAgent))
        assert agent.planner is trainer.policy.chat and agent.model is not trainer.policy.chat
        assert trainer.agent().model is agent.model  # type: ignore[attr-defined]  # loaded once
        (line,) = [line for line in trainer.run().metrics if "stage" in line]
        assert line["episodes/lost"] == 0
        (played,) = sampled(Trainer(config))
        assert all(len(rollout.sequences) == 1 for rollout in played.rollouts)  # the frozen executor's is none


def test_a_frozen_planner_leads_the_executor_that_is_trained(tmp_path: Path) -> None:
    frozen = save_tiny(tmp_path / "frozen", seed=7)
    stage = {"name": "executor", "steps": 1, "roles": ["executor"], "rewards": {"score": 1}}
    config = recipe(tmp_path, agent={"settings": {"planner": frozen}}, stages=[stage])
    trainer = Trainer(config)
    agent = trainer.agent(config.stages[0])
    assert isinstance(agent, AdaPlanAgent) and agent.model is trainer.policy.chat
    assert agent.planner is not None and agent.planner is not trainer.policy.chat
    (played,) = sampled(trainer)
    assert all(len(rollout.sequences) == 1 for rollout in played.rollouts)  # the frozen planner's is none
    assert trainer.run().metrics[-1]["episodes/lost"] == 0
    with pytest.raises(ConfigError, match="makes the policy the planner"):
        Trainer(recipe(tmp_path, agent={"settings": {"planner": frozen}, "executor": frozen}))
    with pytest.raises(ConfigError, match="planner and plan_source"):
        Trainer(recipe(tmp_path, agent={"settings": {"planner": frozen}}, stages=[{"stage": 1, "steps": 1}]))


def test_a_language_model_may_judge(tmp_path: Path) -> None:
    from adaplan_evaluation.judges import LLMJudge
    from adaplan_training.rewards import Scorer

    judge = Scorer(recipe(tmp_path, reward={"judge": "scripted:tests.training.test_stages:PLANS"})).judge
    assert isinstance(judge, LLMJudge)
    with pytest.raises(UnknownNameError, match="unknown judge 'rule'"):
        Scorer(recipe(tmp_path, reward={"judge": "rule"}))
