"""`run_episode`: one episode, whatever happens in it."""

from __future__ import annotations

import asyncio
import logging
import threading
from dataclasses import replace
from typing import Any

import gymnasium
import pytest

from adaplan_agents import Briefing, Decision, Usage
from adaplan_envs import StopReason
from adaplan_envs.errors import (
    ConfigError,
    ContextOverflowError,
    DataMissingError,
    ModelAccessError,
    ModelError,
    SimulatorError,
    UnknownNameError,
)
from adaplan_evaluation import Episode, Failure, count_expert_steps, run_episode
from tests.evaluation.games import COUNTER, HOPELESS, SLOW, UNRELIABLE, Player, clumsy_player
from tests.simulators import Together

TASK = "counter/test/0001"  # three steps


def env(env_id: str = COUNTER, **kwargs: Any) -> Any:
    return gymnasium.make(env_id, split="test", **kwargs)


def player(*actions: str) -> Player:
    script = iter(actions)
    return Player(lambda *_: next(script))


def raising(error: BaseException, after: int = 1) -> Player:
    calls = iter(range(100))

    def choose(*_: Any) -> str:
        if next(calls) >= after:
            raise error
        return "down"

    return Player(choose)


async def test_a_plain_function_is_an_agent_and_every_turn_is_recorded() -> None:
    episode = await run_episode(lambda seen: "down", env(), TASK)
    assert (episode.env_id, episode.task_id, episode.stop_reason) == (COUNTER, TASK, StopReason.SUCCESS)
    assert (episode.success, episode.score, episode.steps, episode.max_steps) == (True, 1.0, 3, 12)
    assert [turn.observation for turn in episode.turns] == ["3 left", "2 left", "1 left"]
    assert episode.observation == "0 left"
    assert episode.statuses == {"ok": 3}


async def test_a_turn_holds_what_agent_and_environment_said_of_it() -> None:
    episode = await run_episode(clumsy_player(), env(), TASK, seed=4)
    turn = episode.turns[0]
    assert (turn.thought, turn.plan, turn.plan_step) == ("hm", ("go down", "again"), 2)
    assert turn.raw.startswith("Thought: hm")
    assert episode.well_formed == sum(bool(turn.action) for turn in episode.turns) < episode.steps
    assert episode.statuses["unparsed"] == sum(turn.action_status == "unparsed" for turn in episode.turns) > 0
    assert episode.usage == sum((turn.usage for turn in episode.turns), Usage())
    assert episode.usage.prompt_tokens == 7 * episode.steps


async def test_the_other_ends_of_an_episode() -> None:
    dead = await run_episode(player("down", "die"), env(), TASK)
    assert (dead.stop_reason, dead.success, dead.steps) == (StopReason.FAILURE, False, 2)
    assert dead.score == pytest.approx(1 / 3)
    long = await run_episode(lambda seen: "sleep", env(max_steps=4), TASK)
    assert (long.stop_reason, long.steps, long.max_steps) == (StopReason.MAX_STEPS, 4, 4)


@pytest.mark.parametrize(
    "error", [ModelError("server down"), SimulatorError("oops"), ValueError("bug"), TimeoutError()]
)
async def test_an_error_is_data_with_its_traceback_and_keeps_the_turns(error: Exception) -> None:
    agent = raising(error)
    episode = await run_episode(agent, env(), TASK)
    assert (episode.stop_reason, episode.success, episode.steps) == (StopReason.ERROR, False, 1)
    assert episode.error is not None
    assert (episode.error.type, episode.error.message) == (type(error).__name__, str(error))
    assert "in choose" in episode.error.traceback
    assert episode.observation == "2 left"
    assert agent.closed == [TASK]


async def test_a_broken_simulator_is_an_error_and_not_a_failure() -> None:
    episode = await run_episode(player("down", "boom"), env(), TASK)
    assert (episode.stop_reason, episode.steps) == (StopReason.ERROR, 1)
    assert episode.error is not None and "_apply" in episode.error.traceback


async def test_an_environment_may_report_an_error_of_its_own() -> None:
    episode = await run_episode(lambda seen: "down", env(UNRELIABLE), "unreliable/test/0001")
    assert (episode.stop_reason, episode.success, episode.steps) == (StopReason.ERROR, False, 2)
    assert (episode.backend, episode.error) == ("simulated", Failure("SimulatorError", "half a JSON"))


async def test_an_agent_that_answers_nonsense_is_an_error() -> None:
    episode = await run_episode(Player(lambda *_: Decision(None)), env(), TASK)  # type: ignore[arg-type]
    assert episode.error is not None and episode.error.type == "TypeError"


async def test_a_full_context_ends_the_episode_as_context() -> None:
    episode = await run_episode(raising(ContextOverflowError("2049 tokens, 2048 fit"), 2), env(), TASK)
    assert (episode.stop_reason, episode.steps, episode.error) == (StopReason.CONTEXT, 2, None)


@pytest.mark.parametrize("error", [ModelAccessError("wrong key"), DataMissingError("adaplan data get")])
async def test_what_every_episode_would_meet_is_raised(error: Exception) -> None:
    agent = raising(error)
    with pytest.raises(type(error)):
        await run_episode(agent, env(), TASK)
    assert agent.closed == [TASK]


async def test_a_mistake_of_the_caller_is_raised() -> None:
    with pytest.raises(UnknownNameError, match="counter/test/0039"):
        await run_episode(player("down"), env(), "counter/test/9999")
    with pytest.raises(UnknownNameError, match="did you mean"):
        await run_episode("expertt", env(), TASK)
    with pytest.raises(ConfigError, match="not a text environment"):
        await run_episode(player("down"), gymnasium.make("CartPole-v1"))  # type: ignore[arg-type]


async def test_the_deadline_interrupts_an_agent_that_waits() -> None:
    async def forever() -> str:
        await asyncio.sleep(100)
        return "down"

    agent = Player(lambda *_: forever())
    episode = await run_episode(agent, env(), TASK, deadline=0.05)
    assert (episode.stop_reason, episode.steps, episode.error) == (StopReason.DEADLINE, 0, None)
    assert agent.closed == [TASK]


async def test_the_deadline_stops_an_agent_that_never_waits() -> None:
    def work(*_: Any) -> str:
        total = 0
        while total < 200_000:
            total += 1
        return "sleep"

    episode = await run_episode(Player(work, wait=False), env(max_steps=100_000), TASK, deadline=0.1)
    assert episode.stop_reason is StopReason.DEADLINE
    assert episode.steps > 0


async def test_no_turn_begins_once_the_token_budget_is_spent() -> None:
    for budget, steps in {1: 1, 12: 1, 13: 2, 24: 2}.items():
        episode = await run_episode(Player(lambda *_: "sleep"), env(), TASK, token_budget=budget)
        assert (episode.stop_reason, episode.steps) == (StopReason.BUDGET, steps)


async def test_blocking_environments_step_side_by_side() -> None:
    async def one(index: int) -> Episode:
        return await run_episode(lambda seen: "down", env(SLOW), f"counter/test/{index:04d}")

    loop_was_free = 0

    async def watch() -> None:
        nonlocal loop_was_free
        while True:
            await asyncio.sleep(0.002)
            loop_was_free += 1

    watcher = asyncio.create_task(watch())
    episodes = await asyncio.gather(*(one(index) for index in range(4)))
    watcher.cancel()
    assert all(episode.success for episode in episodes)
    assert loop_was_free > 5


async def test_simulated_episodes_wait_together_without_a_thread_each_and_a_wrapper_is_heeded() -> None:
    class Loud(gymnasium.Wrapper[str, str, str, str]):
        def step(self, action: str) -> Any:
            seen, *rest = self.env.step(action)
            return seen.upper(), *rest

    def maze(simulator: Any) -> Any:
        return gymnasium.make("AdaPlan/Maze-v0", backend="simulated", simulator=simulator)

    answer = '{"valid": true, "observation": "On.", "done": true, "success": true}'
    together, before = Together(16, answer), threading.active_count()
    envs = [maze(together) for _ in range(16)]
    episodes = await asyncio.gather(*(run_episode(lambda seen: "move up", each) for each in envs))
    assert [(episode.success, episode.observation) for episode in episodes] == [(True, "On.")] * 16
    assert threading.active_count() <= before + 1
    assert (await run_episode(lambda seen: "move up", Loud(maze("scripted")), seed=0)).observation.isupper()


async def test_an_equal_seed_gives_an_equal_episode_in_a_used_or_new_environment() -> None:
    used = env()
    first = await run_episode(clumsy_player(), used, seed=7)
    second = await run_episode(clumsy_player(), used, seed=7)
    third = await run_episode(clumsy_player(), env(), first.task_id, seed=7)
    other = await run_episode(clumsy_player(), used, first.task_id, seed=8)
    assert first.turns == second.turns == third.turns
    assert first.turns != other.turns


async def test_an_episode_survives_json() -> None:
    agent = clumsy_player()
    for episode in (
        await run_episode(agent, env(), TASK, seed=3, repeat=2, expert_steps=3),
        await run_episode(raising(ValueError("a\nb \u2028 \ud800")), env(), TASK),
    ):
        line = episode.to_json()
        assert "\n" not in line
        assert line.encode()
        assert Episode.from_json(line) == episode


@pytest.mark.parametrize("line", ["", "[]", "{}", '{"env_id": 1}', "nonsense"])
def test_what_is_no_episode_is_refused(line: str) -> None:
    with pytest.raises(ValueError):
        Episode.from_json(line)


async def test_the_expert_is_counted_without_a_trace() -> None:
    used = env()
    assert count_expert_steps(used, TASK) == 3
    assert count_expert_steps(used, "counter/test/0004") == 6
    episode = await run_episode(clumsy_player(), used, TASK, seed=5)
    assert episode == _like(await run_episode(clumsy_player(), env(), TASK, seed=5), episode)


def _like(episode: Episode, other: Episode) -> Episode:
    return replace(episode, seconds=other.seconds)


def test_an_expert_that_fails_counts_as_unknown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    assert count_expert_steps(env(max_steps=2), TASK) is None
    assert count_expert_steps(env(SLOW), TASK) is None
    assert count_expert_steps(env(HOPELESS), "hopeless/test/0002") is None
    assert not caplog.records
    assert count_expert_steps(env(HOPELESS), "hopeless/test/0001") is None
    assert "broken expert" in caplog.text
    assert count_expert_steps(env(), "counter/test/9999") is None


async def test_a_session_that_can_not_be_closed_costs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    agent = player("down", "down", "down")
    agent.closed = None  # type: ignore[assignment]
    episode = await run_episode(agent, env(), TASK)
    assert episode.success
    assert "closing the session failed" in caplog.text


async def test_cancelling_is_no_error_of_the_episode() -> None:
    agent = Player(lambda *_: asyncio.sleep(100))
    task = asyncio.create_task(run_episode(agent, env(), TASK))
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert agent.closed == [TASK]


async def test_the_briefing_says_what_is_to_be_done() -> None:
    seen: list[Briefing] = []

    def choose(observation: str, briefing: Briefing, rng: Any) -> str:
        seen.append(briefing)
        return "down"

    game = env(rules="other")
    await run_episode(Player(choose), game, TASK, seed=11)
    briefing = seen[0]
    assert (briefing.env_id, briefing.task_id, briefing.seed) == (COUNTER, TASK, 11)
    assert (briefing.goal, briefing.rules, briefing.max_steps) == ("reach zero", "Say down, please.", 12)
    assert briefing.env is game.unwrapped
