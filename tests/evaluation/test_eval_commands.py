"""`adaplan eval`, `adaplan compare`, `adaplan show`: what a person sees."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from adaplan_envs.cli import Command
from adaplan_envs.errors import ConfigError, ModelAccessError, UnknownNameError
from adaplan_envs.types import Task
from adaplan_evaluation import evaluate, load_run
from adaplan_evaluation.commands import COMPARE, EVAL, SHOW, settings
from adaplan_evaluation.store import read_episodes
from adaplan_evaluation.suite import EnvPool, fingerprint
from tests.conftest import ROOT
from tests.evaluation.games import COUNTER, Player, clumsy_player
from tests.evaluation.test_run import environment


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")


def command(command: Command, *argv: str) -> int:
    parser = argparse.ArgumentParser()
    command.configure(parser)
    return command.run(parser.parse_args(argv))


def test_eval_prints_the_table_and_where_the_files_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "x")
    assert command(EVAL, "--agent", "expert", "--envs", "maze", "--episodes", "5", "--out", out) == 0
    shown = capsys.readouterr().out
    assert "expert · test split" in shown
    row = next(line for line in shown.splitlines() if "Maze" in line)
    assert "100.0 [48, 100]" in row
    assert "1.00" in row  # steps over the expert's
    assert f"{out}/episodes.jsonl" in shown.replace("\n", "")


def test_eval_takes_settings_for_agents_and_environments(tmp_path: Path) -> None:
    argv = ["--agent", "random", "--envs", "maze", "--env-set", "observe=partial"]
    argv += ["--max-steps", "3", "--episodes", "2", "--repeats", "2", "--seed", "4"]
    assert command(EVAL, *argv, "--out", str(tmp_path / "x")) == 0
    run = load_run(tmp_path / "x")
    assert run.results["config"]["env_settings"] == {"observe": "partial"}
    assert [episode.steps for episode in run.episodes] == [3] * 4
    with pytest.raises(UnknownNameError, match="observe"):
        command(EVAL, *argv, "--agent-set", "observe=partial", "--out", str(tmp_path / "y"))


def test_eval_chooses_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert command(EVAL, "--agent", "random", "--envs", "maze", "--episodes", "1", "--max-steps", "1") == 0
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("random-")
    with pytest.raises(ConfigError, match="needs --out"):
        command(EVAL, "--resume")


def test_eval_plays_all_tasks_or_those_named(tmp_path: Path) -> None:
    argv = ["--agent", "random", "--max-steps", "1", "--task", "maze/test/0002", "--task", "maze/train/0001"]
    command(EVAL, *argv, "--out", str(tmp_path / "x"))
    assert len(load_run(tmp_path / "x").episodes) == 2
    command(EVAL, *argv[:4], "--envs", "maze", "--episodes", "all", "--out", str(tmp_path / "y"))
    assert len(load_run(tmp_path / "y").episodes) == 215


@pytest.mark.parametrize("pair", ["novalue", "=3", "x=[1"])
def test_a_setting_has_a_key_and_a_value(pair: str) -> None:
    with pytest.raises(ConfigError, match=r"KEY=VALUE|valid YAML"):
        settings([pair])
    assert settings(["a=1", "b=true", "c=x=y", "d="]) == {"a": 1, "b": True, "c": "x=y", "d": None}


def test_show_prints_one_episode_turn_by_turn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "x")
    evaluate(clumsy_player(), [COUNTER], episodes=3, out=out)
    capsys.readouterr()
    assert command(SHOW, out) == 0
    shown = capsys.readouterr().out
    episode = next(each for each in load_run(out).episodes if each.success)
    assert f"{episode.task_id} · repeat 0 · solved" in shown
    assert shown.count("1. go down") == 1  # an unchanged plan is shown once
    for turn in episode.turns:
        assert turn.observation in shown
        assert f"[{turn.action_status}]" in shown
    assert command(SHOW, out, "--summary") == 0
    assert "clumsy · test split" in capsys.readouterr().out
    with pytest.raises(UnknownNameError, match="did you mean"):
        command(SHOW, out, "--task", episode.task_id + "0")
    with pytest.raises(ConfigError, match="no episode of repeat 5"):
        command(SHOW, out, "--repeat", "5")


def test_show_prints_an_error_with_its_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evaluate(Player(lambda *_: "boom"), [COUNTER], tasks=["counter/test/0001"], out=tmp_path)
    command(SHOW, str(tmp_path), "--task", "counter/test/0001")
    shown = capsys.readouterr().out
    assert "not solved (error)" in shown
    assert "the simulator broke" in shown


def test_a_run_of_errors_alone_says_why_and_is_no_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "failing_agent.py").write_text("def act(seen):\n    raise RuntimeError('no luck\\ntoday')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    argv = ["--agent", "failing_agent:act", "--envs", "maze", "--episodes", "3", "--out", str(tmp_path / "x")]
    assert command(EVAL, *argv) == 1
    shown = capsys.readouterr().out
    assert "3 x RuntimeError: no luck\n" in shown


def test_a_server_that_refuses_the_key_stops_the_run_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openai")
    requests: list[str] = []

    class Refuse(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            requests.append(self.path)
            problem = {"message": "Incorrect API key provided: sk-secret", "code": "invalid_api_key"}
            body = json.dumps({"error": problem})
            self.send_response(401)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Refuse) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_port}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
        argv = ["--agent", "react", "--model", "openai:any", "--envs", "maze", "--episodes", "20", "--concurrency", "4"]
        with pytest.raises(ModelAccessError) as caught:
            command(EVAL, *argv, "--out", str(tmp_path / "x"))
        server.shutdown()
    assert "API key" in str(caught.value)
    assert len(requests) <= 4
    for path in (tmp_path / "x").iterdir():
        assert "sk-secret" not in path.read_text()
    assert not load_run(tmp_path / "x").results["complete"]


def test_compare_prints_pairs_and_what_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for agent, episodes in {"expert": 8, "random": 12}.items():
        out = str(tmp_path / agent)
        argv = ["--envs", "maze", "--episodes", str(episodes), "--max-steps", "40", "--out", out]
        command(EVAL, "--agent", agent, *argv)
    capsys.readouterr()
    assert command(COMPARE, str(tmp_path / "random"), str(tmp_path / "expert")) == 0
    shown = capsys.readouterr().out
    assert "expert against random" in shown
    assert "4 tasks that only random has, 0 that only expert has" in shown
    with pytest.raises(ConfigError, match="two runs"):
        command(COMPARE, str(tmp_path / "expert"))


SCRIPT = """
import sys
from adaplan_evaluation import commands
import argparse
parser = argparse.ArgumentParser()
commands.EVAL.configure(parser)
try:
    sys.exit(commands.EVAL.run(parser.parse_args(sys.argv[1:])))
except KeyboardInterrupt:
    sys.exit(130)
"""


def test_sigterm_leaves_a_summary_of_what_is_finished(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import asyncio\nasync def slow(observation):\n    await asyncio.sleep(0.005)\n    return 'move up'\n"
    )
    out = tmp_path / "x"
    argv = ["--agent", "mine:slow", "--envs", "maze", "--episodes", "all", "--max-steps", "5", "--out", str(out)]
    env = environment()
    env["PYTHONPATH"] += os.pathsep + str(tmp_path)
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, *argv], cwd=tmp_path, env=env)
    while process.poll() is None and len(read_episodes(out / "episodes.jsonl")) < 10:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 130
    run = load_run(out)
    assert not run.results["complete"]
    assert run.results["summary"]["overall"]["episodes"] == len(run.episodes) >= 10


def test_eval_runs_in_another_thread_than_the_main_one(tmp_path: Path) -> None:
    argv = ["--agent", "random", "--envs", "maze", "--episodes", "1", "--max-steps", "1", "--out", str(tmp_path / "x")]
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(command(EVAL, *argv)))
    thread.start()
    thread.join()
    assert codes == [0]


def test_a_fingerprint_tells_tasks_apart_by_their_content() -> None:
    def task(data: Any, goal: str = "go") -> dict[str, list[Task]]:
        return {"X": [Task("x/test/0000", "test", 0, goal, 1, data)]}

    same = {fingerprint(task(data)) for data in ({"b": 1, "a": {3, 1}}, {"a": {1, 3}, "b": 1})}
    assert len(same) == 1
    others = [
        task({"a": 1}),
        task({"a": 2}),
        task({"a": "1"}),
        task([1, 2]),
        task([2, 1]),
        task(None),
        task(None, "no"),
    ]
    assert len({fingerprint(each) for each in others}) == len(others)
    assert fingerprint(task(Task("t", "s", 0, "g", 1))) != fingerprint(task(Task("t", "s", 0, "g", 2)))
    assert fingerprint(task(object())) == fingerprint(task(object()))


def test_a_pool_makes_no_more_environments_than_are_used_at_once() -> None:
    pool = EnvPool(split="test")
    first, second = pool.take(COUNTER), pool.take(COUNTER)
    pool.give(COUNTER, first)
    assert pool.take(COUNTER) is first
    pool.give(COUNTER, second, broken=True)
    assert pool.take(COUNTER) is not second
    with pytest.raises(ConfigError, match="not a text environment"):
        EnvPool().take("CartPole-v1")
    pool.close()


def test_results_say_which_commit_they_come_from(tmp_path: Path) -> None:
    out = tmp_path / "x"
    argv = ["--agent", "random", "--envs", "maze", "--episodes", "1", "--max-steps", "1", "--out", str(out)]
    command(EVAL, *argv)
    (session,) = json.loads((out / "results.json").read_text())["sessions"]
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    assert (session["commit"] or "").partition("+")[0] == head
