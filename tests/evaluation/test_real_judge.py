"""Judge and simulator played by a real, small model behind a real server (see `test_real_server`)."""

from __future__ import annotations

from typing import Any

import pytest

from adaplan_agents import Sampling
from adaplan_agents.models.api import ApiModel
from adaplan_evaluation import Run, evaluate
from adaplan_evaluation.fidelity import fidelity
from adaplan_evaluation.judge_check import judge_check_async
from adaplan_evaluation.judges import LLMJudge
from tests.agents.test_real_server import Server, server  # noqa: F401 - a fixture
from tests.evaluation.planners import ExpertPlanner

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.xdist_group("real server")]


async def test_a_real_model_judges(server: Server, tmp_path: Any) -> None:  # noqa: F811
    tasks = ["maze/agentgym/0018", "maze/agentgym/0017", "maze/agentgym/0016"]
    run: Run = evaluate(ExpertPlanner(), "maze", tasks=tasks, out=tmp_path / "run")
    model = ApiModel(server.model, base_url=server.url, cache=tmp_path / "cache")
    judge = LLMJudge(model, sampling=Sampling(max_tokens=64))
    found = await judge_check_async(run, judge, terms=["e2e"])
    e2e = found["overall"]["e2e"]
    assert e2e["judged"] + e2e["errors"] == 3 and found["tokens"] > 1000
    assert sum(map(sum, e2e["confusion"])) == e2e["judged"]
    again = LLMJudge(model, sampling=Sampling(max_tokens=64))
    assert (await judge_check_async(run, again, terms=["e2e"]))["overall"] == found["overall"]
    assert again.usage.requests == 0  # all from the cache
    await model.aclose()


def test_a_real_model_simulates(server: Server, tmp_path: Any) -> None:  # noqa: F811
    options = {"base_url": server.url, "extra": {"max_tokens": 96}}
    found = fidelity(
        "maze",
        f"openai:{server.model}",
        split="agentgym",
        episodes=2,
        players=["expert"],
        twin_settings={"simulator_options": options, "cache": str(tmp_path)},
    )
    overall = found["overall"]
    assert overall["episodes"] == 2 and overall["tokens"] > 500
    assert overall["errors"] or overall["steps"]
