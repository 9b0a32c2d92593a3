"""A corridor to walk along, small enough to know every answer by heart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from adaplan_agents import Agent, Briefing, Decision, Session
from adaplan_envs import ActionStatus, Outcome, Task, TextEnv


class _Expert:
    def __init__(self, env: Corridor) -> None:
        self._env = env

    def plan(self) -> list[str]:
        return ["move right"] * (3 - self._env._state)

    def action(self) -> str:
        return "right"


class Corridor(TextEnv):
    """Cells 0 to 3 in a row; the goal is cell 3."""

    name = "corridor"
    splits = {"train": 2, "test": 2}
    rulesets = {"default": "Commands: left, right. You win in cell 3."}
    default_max_steps = 10

    def make_task(self, split: str, index: int) -> Task:
        return Task(self.task_id(split, index), split, index, "reach cell 3", 1)

    def _begin(self, task: Task, seed: int) -> str:
        self._state = 0
        return "You are in cell 0."

    def _apply(self, action: str) -> Outcome:
        if action not in ("left", "right"):
            return Outcome("That is no command.", ActionStatus.UNPARSED, action)
        self._state = max(0, self._state + (1 if action == "right" else -1))
        return Outcome(f"You are in cell {self._state}.", ActionStatus.OK, action, success=self._state == 3)

    def admissible_actions(self) -> list[str]:
        return ["left", "right"]

    def _make_expert(self) -> _Expert:
        return _Expert(self)


def brief(env: TextEnv, seed: int = 0) -> Briefing:
    task = env.current_task
    return Briefing("Test/Corridor-v0", task.id, task.goal, env.rules, seed, env.max_steps, env)


Play = Callable[..., tuple[list[Decision], dict[str, Any], Session]]


async def _episode(agent: Agent, seed: int = 0, limit: int = 10) -> tuple[list[Decision], dict[str, Any], Session]:
    env = Corridor(max_steps=limit)
    observation, info = env.reset(seed=0, options={"task_id": "corridor/test/0000"})
    session = agent.start(brief(env, seed))
    decisions = []
    over = False
    while not over:
        decisions.append(await session.act(observation))
        observation, _, terminated, truncated, info = env.step(decisions[-1].action)
        over = terminated or truncated
    session.close()
    return decisions, info, session


@pytest.fixture
def play_async() -> Callable[..., Any]:
    """Return a coroutine function that plays one episode and returns decisions, last info and session."""
    return _episode


@pytest.fixture
def play() -> Play:
    """Return the same as a plain function."""
    return lambda agent, **options: asyncio.run(_episode(agent, **options))
