"""Simulated environments on a server that goes wrong: nothing crashes, nothing is lost, everything is counted."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from adaplan_envs import StopReason, TextEnv
from adaplan_envs.errors import ModelAccessError
from adaplan_evaluation import evaluate
from tests.faults.server import FaultServer

pytest.importorskip("openai")

KEY = "sk-very-secret"
ANSWER = json.dumps({"notes": "n", "valid": True, "observation": "You see a hat.", "done": False, "success": False})
PASSING = ["429", "500", "timeout", "hangup", "half", "empty", "no_json", "garbage"]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Do not wait between attempts."""
    sleep = asyncio.sleep

    async def short(seconds: float) -> None:
        await sleep(0)

    monkeypatch.setattr("adaplan_envs.chat.asyncio.sleep", short)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    yield


def settings(server: FaultServer, **options: Any) -> dict[str, Any]:
    return {
        "backend": "simulated",
        "simulator": "openai:m",
        "simulator_options": {"base_url": server.url, "timeout": 0.3, "retries": 2, **options},
        "cache": False,
    }


def one_step(server: FaultServer, **options: Any) -> tuple[TextEnv, dict[str, Any]]:
    env = gymnasium.make("AdaPlan/Maze-v0", **settings(server, **options)).unwrapped
    assert isinstance(env, TextEnv)
    env.reset(seed=0)
    return env, env.step("move up")[-1]


@pytest.mark.parametrize("fault", PASSING)
def test_a_fault_that_passes_costs_no_episode(fault: str) -> None:
    with FaultServer(lambda messages: ANSWER, [fault]) as server:
        env, info = one_step(server)
        assert (info["stop_reason"], info["error"]) == (None, None)
        assert len(server.requests) == 2
        simulator: Any = env.simulator  # type: ignore[attr-defined]
        failures = simulator.all_failures()
        kind = {"hangup": "connection", "half": "connection", "empty": "malformed", "no_json": "malformed"}
        assert failures == {("malformed" if fault == "garbage" else kind.get(fault, fault)): 1}


@pytest.mark.parametrize("fault", PASSING)
def test_a_fault_that_stays_ends_the_episode_as_error_after_a_few_attempts(fault: str) -> None:
    with FaultServer(lambda messages: ANSWER, always=fault) as server:
        _, info = one_step(server)
        assert info["stop_reason"] is StopReason.ERROR
        assert info["error"]
        assert len(server.requests) == 3


@pytest.mark.parametrize("fault", ["bad_key", "wrong_model"])
def test_a_wrong_key_or_model_stops_the_run_and_tells_no_secret(fault: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with FaultServer(lambda messages: ANSWER, always=fault) as server:
        with pytest.raises(ModelAccessError) as raised:
            one_step(server)
        assert len(server.requests) == 1
    assert KEY not in str(raised.value)
    assert KEY not in "".join(record.getMessage() for record in caplog.records if record.name.startswith("adaplan"))


def test_a_run_on_a_server_full_of_faults_loses_no_episode_and_no_secret(tmp_path: Path) -> None:
    faults = [PASSING[number // 3 % len(PASSING)] if number % 3 == 0 else None for number in range(90)]
    with FaultServer(lambda messages: ANSWER, faults, always="500") as server:
        run = evaluate(
            "random",
            "maze",
            episodes=16,
            concurrency=8,
            max_steps=6,
            env_settings={**settings(server), "cache": str(tmp_path / "cache")},
            out=tmp_path / "run",
        )
        assert not set(PASSING) - set(server.served)
    episodes = list(run.episodes)
    assert len(episodes) == 16
    assert {episode.stop_reason for episode in episodes} == {StopReason.MAX_STEPS, StopReason.ERROR}
    assert {episode.backend for episode in episodes} == {"simulated:openai:m"}
    assert all(episode.error for episode in episodes if episode.stop_reason is StopReason.ERROR)
    everything = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert KEY.encode() not in everything
