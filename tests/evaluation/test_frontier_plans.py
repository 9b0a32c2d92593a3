"""Frontier plans: all candidates first, then the best; each task's only once."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from adaplan_agents import make_agent
from adaplan_agents.models import ScriptedModel
from adaplan_agents.plan import Plan
from adaplan_envs.chat import Sampling
from adaplan_envs.errors import ConfigError, ModelError
from adaplan_envs.registration import installed_ids
from adaplan_evaluation import run_episode
from adaplan_evaluation.judges import FrontierPlans, judge_episode

MAZE, TASK = "AdaPlan/Maze-v0", "maze/test/0001"


def expert_plan() -> list[str]:
    env: Any = gymnasium.make(MAZE).unwrapped
    env.reset(seed=0, options={"task_id": TASK})
    plan: list[str] = env.expert.plan()
    return plan


def planner(*answers: str) -> tuple[ScriptedModel, list[int]]:
    """Return a model that gives these answers in turn, whoever asks, and a list that grows with every call."""
    calls: list[int] = []
    left = itertools.cycle(answers)

    async def answer(messages: list[dict[str, str]]) -> str:
        calls.append(1)
        text = next(left)
        await asyncio.sleep(0.001)
        return text

    return ScriptedModel(answer, "planner"), calls


def listed(steps: list[str]) -> str:
    return Plan(tuple(steps)).lines()


@pytest.mark.parametrize("env_id", installed_ids())
def test_the_expert_is_a_source_for_every_environment(env_id: str) -> None:
    env: Any = gymnasium.make(env_id).unwrapped
    task_id = env.task_ids("test")[3]
    found = asyncio.run(FrontierPlans().plan(env_id, task_id))
    assert found.steps and found.executability == 5


def test_the_best_of_all_candidates_is_selected() -> None:
    best = expert_plan()
    answers = (
        listed(best[:3]),  # falls short
        f"Here it is:\n{listed(best)}",  # no list and nothing else
        listed([*best[:2], "Move nowhere.", *best[2:]]),  # one step too many
        listed(best),
    )
    model, calls = planner(*answers)
    source = FrontierPlans(model, candidates=4)
    found = asyncio.run(source.all_candidates(MAZE, TASK))
    assert [len(each.steps) for each in found] == [3, len(best), len(best) + 1, len(best)]
    assert [each.correctness == 5 for each in found] == [False, True, True, True]
    assert asyncio.run(source.plan(MAZE, TASK)) == found[3] and len(calls) == 4
    assert source.usage.requests == 4


async def test_a_task_costs_its_plans_once_for_a_whole_group() -> None:
    model, calls = planner(listed(expert_plan()))
    source = FrontierPlans(model, candidates=2)
    found = await asyncio.gather(*(source.plan(MAZE, TASK) for _ in range(16)))
    assert len(calls) == 2 and len(set(found)) == 1


def test_plans_are_kept_on_disk(tmp_path: Path) -> None:
    model, calls = planner(listed(expert_plan()), "nonsense")

    def plan(**changed: Any) -> Any:
        settings = {"candidates": 2, "cache": tmp_path, **changed}
        return asyncio.run(FrontierPlans(model, **settings).plan(MAZE, TASK))

    first = plan()
    assert plan() == first and len(calls) == 2
    plan(sampling=Sampling(temperature=0.7))
    assert len(calls) == 4  # asked otherwise, another plan
    for path in tmp_path.rglob("*.json"):
        path.write_text("half a")
    assert plan().steps == first.steps and len(calls) == 6


def test_a_failure_is_not_kept() -> None:
    answers = iter([ModelError("busy"), listed(expert_plan())])

    def answer(messages: Any) -> str:
        found = next(answers)
        if isinstance(found, Exception):
            raise found
        return found

    source = FrontierPlans(ScriptedModel(answer), candidates=1)
    with pytest.raises(ModelError, match="busy"):
        asyncio.run(source.plan(MAZE, TASK))
    assert asyncio.run(source.plan(MAZE, TASK)).correctness == 5


def test_adaplan_follows_the_selected_plan() -> None:
    steps = expert_plan()
    model, _ = planner(listed(steps))

    def follow(messages: list[dict[str, str]]) -> str:
        step = messages[-1]["content"].rpartition("current step is ")[2]
        return f"Action: move {step.split('Move ')[1].split()[0]}"

    agent = make_agent("adaplan", model=ScriptedModel(follow), plan_source=FrontierPlans(model, candidates=1))
    env = gymnasium.make(MAZE)
    episode = asyncio.run(run_episode(agent, env, TASK, 5))
    assert episode.success and episode.turns[-1].plan == tuple(steps)
    found = judge_episode(episode, ["adherence", "plan_quality"])
    assert [each.value for each in found.values()] == [1, 1]


def test_wrong_settings_are_refused() -> None:
    model, _ = planner("1. x")
    with pytest.raises(ConfigError, match="candidates"):
        FrontierPlans(candidates=0)
    with pytest.raises(ConfigError, match="temperature 0"):
        FrontierPlans(model, candidates=3, sampling=Sampling())
    assert FrontierPlans().describe() == {"source": "expert"}
