"""`evaluate`: many episodes at once, on disk as they end."""

from __future__ import annotations

import asyncio
import errno
import inspect
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from adaplan_agents import ScriptedModel
from adaplan_envs import StopReason
from adaplan_envs.errors import ConfigError, ModelAccessError, ModelError, OutputError, UnknownNameError
from adaplan_evaluation import Episode, Run, episode_seed, evaluate, evaluate_async, load_run, run_episode
from adaplan_evaluation import store as store_module
from adaplan_evaluation.store import EpisodeLog, read_episodes
from tests.conftest import ROOT, heed_interrupts
from tests.evaluation.games import COUNTER, HOPELESS, SLOW, Player, clumsy_player


def play(out: Path | None = None, **kwargs: Any) -> Run:
    kwargs.setdefault("agent", clumsy_player())
    kwargs.setdefault("envs", [COUNTER])
    kwargs.setdefault("episodes", 6)
    return evaluate(out=out, **kwargs)


def bare(episodes: list[Episode]) -> list[Episode]:
    return [replace(episode, seconds=0.0) for episode in episodes]


def lines(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "episodes.jsonl").read_text().split("\n")[:-1]]


def test_a_run_is_a_line_for_each_episode_and_a_summary(tmp_path: Path) -> None:
    run = play(tmp_path, repeats=2)
    records = lines(tmp_path)
    assert len(records) == 12
    wanted = "env_id task_id repeat seed success score steps expert_steps stop_reason usage turns error seconds backend"
    assert set(wanted.split()) <= set(records[0])
    assert {record["repeat"] for record in records} == {0, 1}
    assert all(record["expert_steps"] == int(record["task_id"][-4:]) % 5 + 2 for record in records)
    results = json.loads((tmp_path / "results.json").read_text())
    assert results == json.loads(json.dumps(run.results))
    assert results["complete"]
    assert results["config"]["agent"] == {"name": "clumsy"}
    assert results["summary"]["overall"]["episodes"] == 12
    (session,) = results["sessions"]
    assert {"python", "gymnasium", "numpy", "adaplan"} <= set(session["versions"])
    assert session["episodes"] == 12
    assert sorted(path.name for path in tmp_path.iterdir()) == ["episodes.jsonl", "results.json"]


def test_concurrency_changes_nothing_but_order_and_time(tmp_path: Path) -> None:
    one = play(tmp_path / "1", concurrency=1, repeats=3)
    many = play(tmp_path / "16", concurrency=16, repeats=3)
    memory = play(None, concurrency=5, repeats=3)
    assert bare(one.episodes) == bare(many.episodes) == bare(memory.episodes)
    assert len({episode.turns for episode in map(_hashable, one.episodes)}) > 3


def _hashable(episode: Episode) -> Any:
    return replace(episode, turns=tuple(turn.action for turn in episode.turns))  # type: ignore[arg-type]


def test_episodes_equal_in_a_process_with_another_hash_seed(tmp_path: Path) -> None:
    play(tmp_path / "here")
    code = (
        "from tests.evaluation.games import *; from adaplan_evaluation import evaluate; import sys;"
        "evaluate(clumsy_player(), [COUNTER], episodes=6, out=sys.argv[1])"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "there")], check=True, env=environment("77"), cwd=ROOT)
    here, there = load_run(tmp_path / "here"), load_run(tmp_path / "there")
    assert bare(here.episodes) == bare(there.episodes)
    assert here.results["tasks_sha256"] == there.results["tasks_sha256"]


def environment(hash_seed: str = "0") -> dict[str, str]:
    paths = [ROOT, *(ROOT / each for each in ("agents", "evaluation", "training"))]
    return {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(map(str, paths))}


async def test_a_line_can_be_played_again_by_itself(tmp_path: Path) -> None:
    run = await evaluate_async(clumsy_player(), [COUNTER], episodes=3, repeats=2, seed=9, out=tmp_path)
    line = run.episodes[3]
    assert line.seed == episode_seed(9, *line.key)
    again = await run_episode(clumsy_player(), gymnasium.make(COUNTER, split="test"), line.task_id, line.seed)
    assert again.turns == line.turns


def test_a_smaller_choice_of_tasks_is_part_of_a_larger_one() -> None:
    few, more, everything = ([episode.task_id for episode in play(episodes=count).episodes] for count in (5, 10, None))
    assert set(few) < set(more) < set(everything)
    assert (len(few), len(more), len(everything)) == (5, 10, 40)
    assert few == sorted(few)
    assert few != everything[:5]


def test_named_tasks_are_played_in_their_environments() -> None:
    run = play(tasks=["counter/train/0003", "counter/test/0001"])
    assert [episode.task_id for episode in run.episodes] == ["counter/test/0001", "counter/train/0003"]
    maze = evaluate("random", tasks="maze/test/0003", max_steps=2)
    assert [(episode.env_id, episode.steps) for episode in maze.episodes] == [("AdaPlan/Maze-v0", 2)]
    with pytest.raises(ConfigError, match="belongs to none"):
        play(tasks=["maze/test/0001"])
    with pytest.raises(ConfigError, match="no task to play"):
        play(tasks=[])
    with pytest.raises(UnknownNameError, match="did you mean 'maze'"):
        evaluate("random", tasks=["mazze/test/0001"])


def test_a_limit_among_the_settings_of_the_environments_counts() -> None:
    run = play(episodes=2, env_settings={"max_steps": 3})
    assert {episode.max_steps for episode in run.episodes} == {3}
    assert {episode.max_steps for episode in play(episodes=2, max_steps=4).episodes} == {4}
    with pytest.raises(ConfigError, match="max_steps is 4, but 3 among the environments"):
        play(max_steps=4, env_settings={"max_steps": 3})
    with pytest.raises(ConfigError, match="split is 'test', but 'train'"):
        play(env_settings={"split": "train"})


def test_several_environments_make_one_run() -> None:
    run = play(envs=[COUNTER, HOPELESS], episodes=2)
    assert list(run.results["summary"]["envs"]) == [COUNTER, HOPELESS]
    assert {episode.expert_steps is None for episode in run.episodes if episode.env_id == HOPELESS} == {True}


def test_errors_are_counted_apart_and_the_run_goes_on(tmp_path: Path) -> None:
    def choose(observation: str, briefing: Any, rng: Any) -> str:
        if int(briefing.task_id[-1]) % 2:
            raise ModelError("server down")
        return "down"

    run = play(tmp_path, agent=Player(choose), episodes=None)
    overall = run.results["summary"]["overall"]
    assert (overall["episodes"], overall["errors"]) == (40, 20)
    assert overall["success_rate"]["value"] == 1.0
    assert overall["success_rate"]["n"] == 20
    failed = [episode for episode in run.episodes if episode.stop_reason is StopReason.ERROR]
    assert {episode.error.message for episode in failed if episode.error} == {"server down"}


def test_a_broken_environment_is_not_used_again() -> None:
    class Fragile(Player):
        pass

    broken = set()

    def choose(observation: str, briefing: Any, rng: Any) -> str:
        assert id(briefing.env) not in {id(env) for env in broken}
        if briefing.task_id.endswith("7"):
            broken.add(briefing.env)
            return "boom"
        return "down"

    run = play(agent=Fragile(choose), episodes=None, concurrency=3)
    assert len(broken) == 4
    assert run.results["summary"]["overall"]["errors"] == 4


def test_a_wrong_key_stops_the_run_and_keeps_what_is_finished(tmp_path: Path) -> None:
    played = []

    def choose(observation: str, briefing: Any, rng: Any) -> str:
        if len(played) >= 3:
            raise ModelAccessError("the server refuses the key in OPENAI_API_KEY")
        if observation == "1 left":
            played.append(briefing.task_id)
        return "down"

    with pytest.raises(ModelAccessError, match="OPENAI_API_KEY"):
        play(tmp_path, agent=Player(choose), concurrency=2, episodes=None)
    run = load_run(tmp_path)
    assert not run.results["complete"]
    assert 2 <= len(run.episodes) <= 3
    assert run.results["summary"]["overall"]["episodes"] == len(run.episodes)


def test_resuming_plays_only_what_is_missing(tmp_path: Path) -> None:
    whole = play(tmp_path / "whole", repeats=2)
    play(tmp_path / "part", repeats=2)
    file = tmp_path / "part" / "episodes.jsonl"
    kept = file.read_bytes().splitlines(keepends=True)[:5]
    file.write_bytes(b"".join(kept) + b'{"env_id": "Test/Cou')  # killed in the middle of a line
    assert len(load_run(tmp_path / "part").episodes) == 5
    calls: list[Episode] = []
    again = play(
        tmp_path / "part", repeats=2, resume=True, concurrency=3, on_episode=lambda each, _: calls.append(each)
    )
    assert file.read_bytes().startswith(b"".join(kept) + b'{"env_id"')
    assert bare(again.episodes) == bare(whole.episodes)
    assert len(calls) == 12
    assert [session["episodes"] for session in again.results["sessions"]] == [12, 7]
    assert again.results["summary"]["overall"]["success_rate"] == whole.results["summary"]["overall"]["success_rate"]


def test_resuming_a_finished_run_plays_nothing(tmp_path: Path) -> None:
    play(tmp_path)
    before = (tmp_path / "episodes.jsonl").read_bytes()
    run = play(tmp_path, agent=Player(lambda *_: pytest.fail("played"), "clumsy"), resume=True)
    assert (tmp_path / "episodes.jsonl").read_bytes() == before
    assert run.results["complete"]


def test_resuming_a_folder_that_is_empty_starts_the_run(tmp_path: Path) -> None:
    assert len(play(tmp_path / "new", resume=True).episodes) == 6


def test_errors_are_played_again_when_asked_for(tmp_path: Path) -> None:
    first = play(tmp_path, agent=Player(lambda *_: "boom", "clumsy"))
    assert first.results["summary"]["overall"]["errors"] == 6
    assert play(tmp_path, resume=True).results["summary"]["overall"]["errors"] == 6
    again = play(tmp_path, resume=True, retry_errors=True)
    assert again.results["summary"]["overall"]["errors"] == 0
    assert len(lines(tmp_path)) == 12
    assert bare(again.episodes) == bare(play().episodes)


def test_a_run_is_not_mixed_with_another(tmp_path: Path) -> None:
    play(tmp_path)
    with pytest.raises(ConfigError, match="--resume"):
        play(tmp_path)
    for change, said in {
        "seed": "seed: 0 in the run, 5 now",
        "repeats": "repeats",
        "max_steps": "max_steps",
        "deadline": "deadline",
    }.items():
        with pytest.raises(ConfigError, match=said):
            play(tmp_path, resume=True, **{change: 5})
    with pytest.raises(ConfigError, match=r"agent\.name: 'clumsy' in the run, 'other' now"):
        play(tmp_path, resume=True, agent=Player(lambda *_: "down", "other"))
    with pytest.raises(ConfigError, match=r"env_settings\.rules: 'not set' in the run, 'other' now"):
        play(tmp_path, resume=True, env_settings={"rules": "other"})
    assert len(lines(tmp_path)) == 6
    (tmp_path / "results.json").unlink()
    with pytest.raises(ConfigError, match=r"no results\.json"):
        play(tmp_path, resume=True)


def test_a_run_is_not_continued_on_other_tasks_of_the_same_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.evaluation.games import Counter

    play(tmp_path)
    monkeypatch.setattr(Counter, "shift", 1)
    with pytest.raises(ConfigError, match="the tasks themselves"):
        play(tmp_path, resume=True)


def test_two_processes_can_not_write_one_run(tmp_path: Path) -> None:
    log = EpisodeLog(tmp_path)
    with pytest.raises(OutputError, match="another process"):
        play(tmp_path)
    log.close()
    play(tmp_path)


def test_a_damaged_line_is_named_and_nothing_is_lost(tmp_path: Path) -> None:
    play(tmp_path)
    file = tmp_path / "episodes.jsonl"
    rows = file.read_bytes().splitlines(keepends=True)
    rows[2] = b"garbage\n"
    file.write_bytes(b"".join(rows))
    with pytest.raises(ConfigError, match="line 3 is damaged"):
        play(tmp_path, resume=True)
    assert file.read_bytes() == b"".join(rows)


def test_a_full_disk_is_one_clear_error_and_finished_episodes_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room, real = 20_000, os.write

    def write(file: int, data: bytes) -> int:
        nonlocal room
        if room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = real(file, data[:room])  # like a disk: takes what fits, then refuses
        room -= written
        return written

    monkeypatch.setattr(store_module.os, "write", write)
    with pytest.raises(OutputError, match=r"No space left on device.*--resume"):
        play(tmp_path, episodes=None)
    monkeypatch.undo()
    kept = lines(tmp_path)
    assert 0 < len(kept) < 40
    assert (tmp_path / "episodes.jsonl").read_bytes().endswith(b"}\n")
    again = play(tmp_path, episodes=None, resume=True)
    assert len(again.episodes) == len(lines(tmp_path)) == 40


def test_a_folder_that_can_not_be_written_is_said_before_anything_is_played(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="can't write"):
        play(tmp_path / "file" / "run", agent=Player(lambda *_: pytest.fail("played")))


def test_results_are_replaced_as_a_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store_module.write_results(tmp_path, {"old": 1})

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(store_module.os, "fsync", full)
    with pytest.raises(OutputError, match="is intact"):
        store_module.write_results(tmp_path, {"new": 1})
    assert json.loads((tmp_path / "results.json").read_text()) == {"old": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]


def test_a_run_that_is_not_there_names_those_nearby(tmp_path: Path) -> None:
    play(tmp_path / "first")
    with pytest.raises(ConfigError, match=r"did you mean '.*first'"):
        load_run(tmp_path / "frist")
    (tmp_path / "first" / "results.json").write_text("{")
    with pytest.raises(ConfigError, match="damaged"):
        load_run(tmp_path / "first")
    assert read_episodes(tmp_path / "nowhere.jsonl") == []


@pytest.mark.parametrize(
    ("kwargs", "said"),
    [
        ({"envs": "mazze"}, "did you mean 'maze'"),
        ({"envs": ""}, "no environment to play"),
        ({"envs": "CartPole-v1"}, "does not accept"),
        ({"split": "tset"}, "did you mean 'test'"),
        ({"agent": "ract"}, "did you mean 'react'"),
        ({"agent": "react"}, "needs a model"),
        ({"agent": "react", "model": "smollm"}, "did you mean 'smollm2'"),
        ({"env_settings": {"wrong": 1}}, "does not accept"),
        ({"env_settings": {"rules": "othr"}}, "did you mean 'other'"),
        ({"concurrency": 0}, "concurrency is 0"),
        ({"episodes": 0}, "episodes is 0"),
        ({"max_steps": 0}, "max_steps is 0"),
        ({"envs": "maze", "max_difficulty": 3}, "difficulty of 3 or less; they have 4 to"),
        ({"resume": True}, "resume needs out"),
        ({"tasks": ["counter/test/0099"]}, "unknown task id"),
    ],
)
def test_a_wrong_setting_is_named_with_the_nearest_right_one(kwargs: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        play(**kwargs)


def test_a_real_agent_with_a_scripted_model_plays_a_real_environment(tmp_path: Path) -> None:
    model = ScriptedModel(lambda messages: "Thought: go\nAction: move up")
    run = evaluate("react", "maze", model=model, episodes=4, max_steps=5, out=tmp_path)
    assert run.results["config"]["agent"]["name"] == "react"
    assert all(turn.thought == "go" for episode in run.episodes for turn in episode.turns)
    assert run.results["summary"]["overall"]["format_rate"]["value"] == 1.0
    assert run.results["summary"]["overall"]["prompt_tokens"]["value"] > 50


def test_harder_tasks_are_left_out_on_request() -> None:
    every = evaluate("expert", "maze", episodes=None, max_difficulty=6)
    some = evaluate("expert", "maze", episodes=10, max_difficulty=6)
    assert {episode.expert_steps for episode in every.episodes} == {4, 5, 6}
    assert {episode.task_id for episode in some.episodes} < {episode.task_id for episode in every.episodes}
    assert len(some.episodes) == 10


def test_a_model_given_by_name_is_closed_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    from adaplan_evaluation import runner

    class Closable(ScriptedModel):
        closed = 0

        async def aclose(self) -> None:
            self.closed += 1

    model = Closable(lambda messages: "move up")
    monkeypatch.setattr(runner, "load_model", lambda spec: model)
    evaluate("naive", "maze", model="mine", episodes=1, max_steps=2)
    assert model.closed == 1
    evaluate("naive", "maze", model=model, episodes=1, max_steps=2)
    assert model.closed == 1  # the caller's model stays the caller's


async def test_evaluate_works_where_a_loop_is_running_already() -> None:
    before = set(threading.enumerate())
    run = play(episodes=2)  # as in a cell of a notebook
    assert len(run.episodes) == 2
    with pytest.raises(UnknownNameError):
        play(envs="mazze")
    assert set(threading.enumerate()) <= before


def test_evaluate_shows_its_arguments_and_is_not_async() -> None:
    assert list(inspect.signature(evaluate).parameters) == list(inspect.signature(evaluate_async).parameters)
    assert not inspect.iscoroutinefunction(evaluate)
    assert evaluate.__doc__ == evaluate_async.__doc__


async def test_a_cancelled_run_writes_its_summary(tmp_path: Path) -> None:
    def choose(observation: str, briefing: Any, rng: Any) -> Any:
        return asyncio.sleep(100) if briefing.task_id.endswith("3") else "down"

    task = asyncio.create_task(evaluate_async(Player(choose), [COUNTER], episodes=None, out=tmp_path, concurrency=2))
    while not (tmp_path / "episodes.jsonl").exists() or len(lines(tmp_path)) < 5:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    run = load_run(tmp_path)
    assert not run.results["complete"]
    assert run.results["summary"]["overall"]["episodes"] == len(run.episodes) >= 5


def test_blocking_environments_run_side_by_side_in_a_run() -> None:
    began = time.perf_counter()
    run = play(envs=[SLOW], agent=Player(lambda *_: "down"), episodes=None, concurrency=40)
    took = time.perf_counter() - began
    waited = 0.02 * sum(episode.steps for episode in run.episodes)
    assert all(episode.success for episode in run.episodes)
    assert took < waited  # not one after another; how much faster is for the benchmark to say


SCRIPT = """
import sys, asyncio
from tests.evaluation.games import *
from adaplan_evaluation import evaluate
def choose(*_):
    return asyncio.sleep(0.01, "down")
evaluate(Player(choose, "slow"), [COUNTER], episodes=None, repeats=4, out=sys.argv[1], concurrency=4, resume=True)
"""


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_run_goes_on_where_it_was(tmp_path: Path, kill: signal.Signals) -> None:
    out = tmp_path / "run"
    command = [sys.executable, "-c", SCRIPT, str(out)]
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment(), stderr=subprocess.DEVNULL, preexec_fn=heed_interrupts
    )
    file = out / "episodes.jsonl"
    while process.poll() is None and (not file.exists() or file.read_bytes().count(b"\n") < 20):
        time.sleep(0.01)
    process.send_signal(kill)
    assert process.wait(20) != 0
    kept = file.read_bytes()
    found = read_episodes(file)
    assert 20 <= len(found) < 160
    assert not load_run(out).results["complete"]
    subprocess.run(command, cwd=ROOT, env=environment(), check=True)
    run = load_run(out)
    assert file.read_bytes().startswith(kept[: kept.rindex(b"\n") + 1])
    assert run.results["complete"]
    assert len(run.episodes) == len(lines(out)) == 160


NOTEBOOK = """
import asyncio, sys
from tests.evaluation.games import *
from adaplan_evaluation import evaluate
async def cell():
    slow = Player(lambda *_: asyncio.sleep(0.01, "down"), "slow")
    evaluate(slow, [COUNTER], episodes=None, repeats=9, out=sys.argv[1])
asyncio.new_event_loop().run_until_complete(cell())
"""


def test_an_interrupted_cell_of_a_notebook_writes_its_summary(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", NOTEBOOK, str(tmp_path)],
        cwd=ROOT,
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )
    while process.poll() is None and len(read_episodes(tmp_path / "episodes.jsonl")) < 10:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, shown = process.communicate(timeout=20)
    assert shown.strip().endswith("KeyboardInterrupt")
    run = load_run(tmp_path)
    assert not run.results["complete"]
    assert run.results["summary"]["overall"]["episodes"] == len(run.episodes) >= 10
