"""A tiny environment, and agents that behave or misbehave in it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import gymnasium

from adaplan_agents import Agent, Briefing, Decision, Plan, Session, Usage
from adaplan_envs import ActionStatus, Outcome, StopReason, Task, TextEnv
from adaplan_envs.core import stable_rng
from adaplan_envs.errors import NoPlanError


class Counter(TextEnv):
    """Count down to zero with ``down``; ``die`` ends it, ``boom`` breaks the simulator."""

    name = "counter"
    splits = {"train": 10, "test": 40}
    rulesets = {"default": "Say down.", "other": "Say down, please."}
    default_max_steps = 12
    shift = 0

    def make_task(self, split: str, index: int) -> Task:
        return Task(
            self.task_id(split, index), split, index, "reach zero", index, {"start": index % 5 + 2 + self.shift}
        )

    def _begin(self, task: Task, seed: int) -> str:
        self._state = {"left": task.data["start"], "start": task.data["start"]}
        return f"{self._state['left']} left"

    def _apply(self, action: str) -> Outcome:
        state = self._state
        if action == "boom":
            raise RuntimeError("the simulator broke")
        if action == "die":
            return Outcome("dead", ActionStatus.OK, action, failed=True)
        if action != "down":
            return Outcome("say down", ActionStatus.UNPARSED, action)
        state["left"] -= 1
        return Outcome(f"{state['left']} left", ActionStatus.OK, action, success=state["left"] == 0)

    def _score(self) -> float:
        return 1 - self._state["left"] / self._state["start"]

    def _make_expert(self) -> Any:
        return CounterExpert(self)


class CounterExpert:
    def __init__(self, env: Counter) -> None:
        self.env = env

    def plan(self) -> list[str]:
        return ["Say down."] * self.env._state["left"]

    def action(self) -> str:
        return "down"


class SlowCounter(Counter):
    """Waits for something elsewhere in every step."""

    blocking = True

    def _apply(self, action: str) -> Outcome:
        time.sleep(0.02)
        return super()._apply(action)


class Hopeless(Counter):
    """Its expert gives up, or breaks for odd tasks."""

    name = "hopeless"

    def _make_expert(self) -> Any:
        env = self

        class Broken(CounterExpert):
            def action(self) -> str:
                if env.current_task.index % 2:
                    raise ValueError("broken expert")
                raise NoPlanError("no way")

        return Broken(self)


class Unreliable(Counter):
    """Simulated by something that fails in the second step, and says so in info."""

    name = "unreliable"

    def step(self, action: str) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        info["backend"] = "simulated"
        if info["steps"] == 2:
            info |= {"stop_reason": StopReason.ERROR, "error": "half a JSON"}
        return observation, reward, terminated, truncated, info


COUNTER, SLOW, HOPELESS, UNRELIABLE = (
    f"Test/{name}-v0" for name in ("Counter", "SlowCounter", "Hopeless", "Unreliable")
)

for env_id, entry_point in {COUNTER: Counter, SLOW: SlowCounter, HOPELESS: Hopeless, UNRELIABLE: Unreliable}.items():
    if env_id not in gymnasium.registry:
        gymnasium.register(env_id, entry_point, disable_env_checker=True, order_enforce=False)


Choose = Callable[[str, Briefing, Any], Any]


class Player(Agent):
    """Asks `choose(observation, briefing, rng)` for a decision or an action, after some waiting."""

    def __init__(self, choose: Choose, name: str = "player", wait: bool = True) -> None:
        self.choose, self.name, self.wait = choose, name, wait
        self.closed: list[str] = []

    def start(self, briefing: Briefing) -> Session:
        return _PlayerSession(self, briefing)


class _PlayerSession(Session):
    def __init__(self, agent: Player, briefing: Briefing) -> None:
        self.agent, self.briefing = agent, briefing
        self.rng = stable_rng("player", briefing.seed)

    async def act(self, observation: str) -> Decision:
        if self.agent.wait:
            await asyncio.sleep(self.rng.random() / 2000)
        chosen = self.agent.choose(observation, self.briefing, self.rng)
        if asyncio.iscoroutine(chosen):
            chosen = await chosen
        if isinstance(chosen, Decision):
            return chosen
        return Decision(chosen, raw=f"Action: {chosen}", usage=Usage(10, 2, 1, 0.001))

    def close(self) -> None:
        self.agent.closed.append(self.briefing.task_id)


def clumsy(observation: str, briefing: Briefing, rng: Any) -> Decision:
    """Play a fair share of wrong moves, at random."""
    action = rng.choice(["down", "down", "down", "up", ""])
    plan = Plan(("go down", "again")).advance()
    return Decision(action, "hm", plan, f"Thought: hm\nAction: {action}", bool(action), Usage(7, 3, 2, 0.01))


def clumsy_player() -> Player:
    return Player(clumsy, "clumsy")
