"""A judge whose server goes wrong: every failure is counted, none becomes a score, nothing is retried for ever."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from adaplan_envs.chat import ChatClient
from adaplan_envs.errors import ModelAccessError
from adaplan_evaluation import Episode, Run, evaluate
from adaplan_evaluation.judge_check import judge_check
from adaplan_evaluation.judges import Judgement, JudgementStatus, LLMJudge, judge_episodes
from tests.evaluation.judging import careful
from tests.evaluation.planners import ExpertPlanner, play
from tests.faults.server import FaultServer

SECRET = "sk-very-secret"
EPISODES = 8
PASSING = ["429", "500", "hangup", "half", "empty", "no_json", "timeout"]
"""Faults that another attempt mends."""


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    sleep = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda seconds, *rest: sleep(0))


@pytest.fixture(scope="module")
def episodes() -> list[Episode]:
    return [play(ExpertPlanner(), "AdaPlan/Maze-v0", f"maze/test/{number:04d}") for number in range(EPISODES)]


def right(messages: list[dict[str, str]]) -> str:
    return str(careful().replies(messages))  # type: ignore[operator]


def judged(
    server: FaultServer, episodes: list[Episode], retries: int = 2
) -> tuple[list[Judgement], ChatClient, LLMJudge]:
    client = ChatClient("judge", base_url=server.url, api_key=SECRET, timeout=0.5, retries=retries)
    judge = LLMJudge(client)

    async def run() -> list[dict[str, Judgement]]:
        try:
            return await judge_episodes(episodes, ["e2e"], judge, concurrency=1)
        finally:
            await client.aclose()

    return [each["e2e"] for each in asyncio.run(run())], client, judge


def test_what_another_attempt_mends_costs_nothing(episodes: list[Episode]) -> None:
    faults = [each for fault in PASSING for each in (fault, None)]
    with FaultServer(right, faults) as server:
        found, client, judge = judged(server, episodes)
    assert [each.score for each in found] == [2] * EPISODES
    assert sum(client.failures.values()) == len(PASSING) and not judge.failures
    assert len(server.requests) == EPISODES + len(PASSING)


@pytest.mark.parametrize("fault", ["429", "500", "half", "empty", "no_json"])
def test_what_nothing_mends_is_no_score(episodes: list[Episode], fault: str) -> None:
    with FaultServer(right, always=fault) as server:
        found, client, judge = judged(server, episodes[:3])
    assert {(each.status, each.score, each.value) for each in found} == {(JudgementStatus.ERROR, None, None)}
    assert judge.failures == {"model": 3} and len(server.requests) == 9  # three attempts for each
    assert sum(client.failures.values()) == 9


def test_a_server_that_fails_in_between_loses_only_what_it_failed(episodes: list[Episode]) -> None:
    with FaultServer(right, [None, None, "500", "500", "500", None]) as server:
        found, _, judge = judged(server, episodes)
    assert [each.score for each in found] == [2, 2, None, *[2] * (EPISODES - 3)]
    assert judge.failures == {"model": 1}


def test_nonsense_is_asked_for_again_once(episodes: list[Episode]) -> None:
    with FaultServer(right, ["garbage", None, "garbage", "garbage"]) as server:
        found, _, judge = judged(server, episodes[:3])
    assert [each.score for each in found] == [2, None, 2]
    assert judge.failures == {"asked again": 2, "unusable": 1}


@pytest.mark.parametrize("fault", ["bad_key", "wrong_model"])
def test_a_judge_that_can_not_be_used_stops_the_run(episodes: list[Episode], fault: str) -> None:
    with FaultServer(right, always=fault) as server, pytest.raises(ModelAccessError) as error:
        judged(server, episodes)
    assert len(server.requests) == 1 and SECRET not in str(error.value)


def test_no_result_holds_the_key() -> None:
    run: Run = evaluate(ExpertPlanner(), "maze", episodes=3)
    with FaultServer(right, ["500"]) as server:
        client: Any = ChatClient("judge", base_url=server.url, api_key=SECRET)
        found = judge_check(run, LLMJudge(client), terms=["e2e"])
    assert found["overall"]["e2e"]["judged"] == 3 and found["tokens"] == 330
    assert SECRET not in json.dumps(found)
