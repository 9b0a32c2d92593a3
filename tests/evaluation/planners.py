"""Agents that plan as the expert does, or worse than it, for the tests of judges."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import gymnasium

from adaplan_agents import Agent, Briefing, Decision, Plan, Session
from adaplan_envs.core import TextEnv, stable_rng
from adaplan_evaluation import Episode, count_expert_steps, run_episode

Spoil = Callable[[Any, Any], Any]


class ExpertPlanner(Agent):
    """Plans with the environment's expert at every turn and plays the expert's command.

    Args:
        spoil: from a plan (its steps) and a random generator to the plan that is shown instead.
        idle: plays this command so many times before the expert's; it has no step in the plan.
    """

    name = "expert-planner"

    def __init__(self, spoil: Spoil | None = None, idle: tuple[str, int] = ("", 0)) -> None:
        self.spoil, self.idle = spoil, idle

    def start(self, briefing: Briefing) -> Session:
        return _PlannerSession(self, briefing)


class _PlannerSession(Session):
    def __init__(self, agent: ExpertPlanner, briefing: Briefing) -> None:
        self.agent = agent
        self.env: TextEnv = briefing.env
        self.rng = stable_rng("planner", briefing.seed)
        self.plan = Plan()
        self.idle = agent.idle[1]

    async def act(self, observation: str) -> Decision:
        if self.idle:
            self.idle -= 1
            return Decision(self.agent.idle[0], raw=f"Action: {self.agent.idle[0]}")
        steps = self.env.expert.plan()
        if self.agent.spoil is not None:
            steps = self.agent.spoil(steps, self.rng)
        plan = self.plan.revise(self.plan.done, steps)
        self.plan = plan.advance()
        action = self.env.expert.action()
        listed = plan.lines(plan.done + 1)
        return Decision(action, None, plan, f"Action: {action}", trace=({"role": "planner", "text": listed},))


def play(agent: Agent | str, env_id: str, task_id: str, seed: int = 1, **settings: Any) -> Episode:
    """Return an episode, with the expert's number of steps."""
    env = gymnasium.make(env_id, **settings)
    steps = count_expert_steps(env, task_id, seed)
    episode = asyncio.run(run_episode(agent, env, task_id, seed, expert_steps=steps))
    env.close()
    return episode
