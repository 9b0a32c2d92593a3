"""One episode: the same coroutine for a notebook, a benchmark and a training rollout."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

import gymnasium

from adaplan_agents import make_agent
from adaplan_agents.types import Agent, Briefing, Decision, Session, Usage
from adaplan_envs.core import TextEnv
from adaplan_envs.errors import (
    ConfigError,
    ContextOverflowError,
    DataMissingError,
    MissingExtraError,
    ModelAccessError,
    NoPlanError,
)
from adaplan_envs.types import StopReason
from adaplan_evaluation.types import Episode, Failure, Turn

FATAL = (ModelAccessError, DataMissingError, MissingExtraError)
"""Errors that every other episode would meet too: they are raised, and a run stops."""

_log = logging.getLogger(__name__)


async def run_episode(
    agent: Agent | Callable[[str], Any] | str,
    env: gymnasium.Env[str, str],
    task_id: str | None = None,
    seed: int = 0,
    *,
    repeat: int = 0,
    deadline: float | None = None,
    token_budget: int | None = None,
    expert_steps: int | None = None,
    executor: Executor | None = None,
) -> Episode:
    """Let `agent` play one episode of `env`. Equal seeds give equal episodes, whatever else runs beside it.

    What goes wrong in the agent, its model or the environment is data: the episode ends as ``error``.

    Args:
        agent: an agent, the name of one, or a function from observation to action.
        env: made by ``gymnasium.make``; nobody else may use it meanwhile.
        task_id: the task; None lets the seed pick one from the environment's split.
        seed: of the environment and of the agent.
        repeat: recorded in the episode.
        deadline: limit of wall-clock seconds. It interrupts waiting (for a model, for a blocking environment); other
            code is let finish its turn.
        token_budget: no further turn begins once this many tokens, read and written, are used.
        expert_steps: recorded in the episode; see `count_expert_steps`.
        executor: runs the steps of a blocking environment; None takes asyncio's own.

    Raises:
        ConfigError: no such task, or the agent can't play this environment.
        ModelAccessError: the model can't be used at all.
        DataMissingError, MissingExtraError: something has to be installed first.
    """
    play = _Play(agent if isinstance(agent, Agent) else make_agent(agent), env, executor, token_budget)
    began = time.perf_counter()
    stop, failure = StopReason.ERROR, None
    try:
        async with asyncio.timeout(deadline) as limit:
            stop = await play.run(task_id, seed, None if deadline is None else began + deadline)
    except ContextOverflowError:
        stop = StopReason.CONTEXT
    except FATAL:
        raise
    except Exception as error:
        if isinstance(error, ConfigError) and not play.turns:
            raise  # the caller's mistake: no such task, an agent that does not fit
        if isinstance(error, TimeoutError) and limit.expired():
            stop = StopReason.DEADLINE
        else:
            failure = Failure(type(error).__name__, str(error), "".join(traceback.format_exception(error)))
    finally:
        play.close()
    if failure is None and stop is StopReason.ERROR:  # an environment that met an error of its own says so in info
        failure = Failure("SimulatorError", str(play.info.get("error") or "the environment reported an error"))
    info, turns = play.info, play.turns
    return Episode(
        env_id=play.env_id,
        task_id=str(info.get("task_id", task_id or "")),
        repeat=repeat,
        seed=seed,
        goal=str(info.get("goal", "")),
        success=stop is StopReason.SUCCESS and bool(info["success"]),
        score=float(info.get("score", 0.0)),
        steps=len(turns),
        max_steps=int(info.get("max_steps", play.base.max_steps)),
        expert_steps=expert_steps,
        stop_reason=stop,
        statuses=dict(sorted(Counter(str(turn.action_status) for turn in turns).items())),
        well_formed=sum(turn.well_formed for turn in turns),
        usage=play.usage,
        seconds=round(time.perf_counter() - began, 6),
        backend=str(info.get("backend", "real")),
        error=failure,
        turns=tuple(turns),
        observation=play.observation,
    )


class _Play:
    """The state of one running episode, which outlives an exception in the middle of it."""

    def __init__(
        self, agent: Agent, env: gymnasium.Env[str, str], executor: Executor | None, token_budget: int | None
    ) -> None:
        if not isinstance(env.unwrapped, TextEnv):
            raise ConfigError(f"{type(env.unwrapped).__name__} is not a text environment (a subclass of TextEnv)")
        self.agent, self.env, self.executor, self.token_budget = agent, env, executor, token_budget
        self.base: TextEnv = env.unwrapped
        # A wrapper's `step` must not be passed by.
        self.step_async = getattr(env, "step_async", None) if env is env.unwrapped else None
        self.env_id = env.spec.id if env.spec is not None else self.base.name
        self.session: Session | None = None
        self.turns: list[Turn] = []
        self.usage = Usage()
        self.observation = ""
        self.info: dict[str, Any] = {}

    async def run(self, task_id: str | None, seed: int, until: float | None) -> StopReason:
        options = None if task_id is None else {"task_id": task_id}
        self.observation, self.info = await self._wait(lambda: self.env.reset(seed=seed, options=options))
        self.session = self.agent.start(
            Briefing(
                env_id=self.env_id,
                task_id=self.info["task_id"],
                goal=self.info["goal"],
                rules=self.base.rules,
                seed=seed,
                max_steps=self.info["max_steps"],
                env=self.base,
            )
        )
        while self.info["stop_reason"] is None:
            if self.token_budget is not None and self._tokens() >= self.token_budget:
                return StopReason.BUDGET
            # An agent that never waits would keep every other episode, Ctrl-C and the deadline from their turn.
            await asyncio.sleep(0)
            if until is not None and time.perf_counter() >= until:
                return StopReason.DEADLINE
            decision = await self.session.act(self.observation)
            self.usage += decision.usage
            await self._play(decision)
        return StopReason(self.info["stop_reason"])

    async def _play(self, decision: Decision) -> None:
        seen, plan = self.observation, decision.plan
        self.observation, _, _, _, self.info = await self._step(decision.action)
        self.turns.append(
            Turn(
                observation=seen,
                raw=decision.raw,
                thought=decision.thought,
                action=decision.action,
                command=self.info["action"],
                action_status=self.info["action_status"],
                plan=None if plan is None else plan.steps,
                plan_step=None if plan is None or plan.current is None else plan.done + 1,
                well_formed=decision.well_formed,
                score=self.info["score"],
                usage=decision.usage,
                trace=decision.trace,
            )
        )

    async def _step(self, action: str) -> Any:
        if self.step_async is not None:
            return await self.step_async(action)
        return await self._wait(lambda: self.env.step(action))

    async def _wait(self, call: Callable[[], Any]) -> Any:
        if self.base.blocking and self.step_async is None:
            return await asyncio.get_running_loop().run_in_executor(self.executor, call)
        return call()  # microseconds: a thread would cost more

    def _tokens(self) -> int:
        return self.usage.prompt_tokens + self.usage.completion_tokens

    def close(self) -> None:
        if self.session is not None:
            try:
                self.session.close()
            except Exception:
                _log.warning("%s: closing the session failed", self.env_id, exc_info=True)


def count_expert_steps(env: gymnasium.Env[str, str], task_id: str, seed: int = 0) -> int | None:
    """Return how many actions the expert needs for a task, by playing it; `env` must be reset afterwards.

    Played and not read off the plan, because some experts (Wordle's) can only plan as far as they know.

    Returns:
        None where the expert fails within ``max_steps``, or where a step is too dear to play it (`TextEnv.blocking`).
    """
    base = env.unwrapped
    if not isinstance(base, TextEnv) or base.blocking:
        return None
    try:
        _, info = base.reset(seed=seed, options={"task_id": task_id})
        while info["stop_reason"] is None:
            *_, info = base.step(base.expert.action())
    except NoPlanError:
        return None
    except Exception:  # must not cost the agent its episode, which meets a broken environment by itself
        _log.warning("the expert failed on %s", task_id, exc_info=True)
        return None
    return int(info["steps"]) if info["success"] else None
