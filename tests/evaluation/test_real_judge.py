"""A judge played by a real, small model behind a real server (see `test_real_server`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from adaplan_agents import Sampling
from adaplan_agents.models.api import ApiModel
from adaplan_evaluation import Run, evaluate, load_run
from adaplan_evaluation.judge_check import judge_check_async
from adaplan_evaluation.judges import LLMJudge
from tests.agents.test_real_server import Server, server  # noqa: F401 - a fixture

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.xdist_group("real server")]


def short_run(out: Path) -> Run:
    """Return a run of one episode of two actions: a model this small is slow here."""
    evaluate("random", "maze", tasks=["maze/agentgym/0018"], max_steps=2, out=out)
    return load_run(out)


async def test_a_real_model_judges(server: Server, tmp_path: Path) -> None:  # noqa: F811
    run = short_run(tmp_path / "run")
    model = ApiModel(server.model, base_url=server.url, timeout=280, retries=0, cache=tmp_path / "cache")
    judge = LLMJudge(model, sampling=Sampling(max_tokens=40))
    found = await judge_check_async(run, judge, terms=["e2e"])
    e2e = found["overall"]["e2e"]
    assert e2e["judged"] + e2e["errors"] == 1 and "model" not in found["failures"]
    assert sum(map(sum, e2e["confusion"])) == e2e["judged"]
    assert found["tokens"] > 300
    again = LLMJudge(model, sampling=Sampling(max_tokens=40))
    assert (await judge_check_async(run, again, terms=["e2e"]))["overall"] == found["overall"]
    assert again.usage.requests == 0  # all from the cache
    await model.aclose()
