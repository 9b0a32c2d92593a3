"""The judge's judge: a careful model agrees with the simulator, one that errs at a known rate errs at that rate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from adaplan_agents.models import ScriptedModel
from adaplan_envs.errors import ConfigError
from adaplan_evaluation import Run, evaluate, load_run
from adaplan_evaluation.judge_check import judge_check
from adaplan_evaluation.judges import LLMJudge
from tests.evaluation.judging import careful
from tests.evaluation.planners import ExpertPlanner

EPISODES = 60


class Mixed(ExpertPlanner):
    """Solves some tasks well, some slowly, and gives some up, with plans that are good or bad."""

    def start(self, briefing: Any) -> Any:
        kind = int(briefing.task_id[-2:]) % 3
        spoil = (lambda steps, rng: ["Move nowhere.", *steps[1:]]) if kind == 1 else None
        idle = ("look", (0, 40, 1000)[kind])
        return ExpertPlanner(spoil, idle).start(briefing)


@pytest.fixture(scope="module")
def run(tmp_path_factory: Any) -> Run:
    out = tmp_path_factory.mktemp("runs") / "mixed"
    evaluate(Mixed(), "maze", episodes=EPISODES, out=out)
    return load_run(out)


def test_a_careful_judge_agrees_in_everything(run: Run) -> None:
    found = judge_check(run, LLMJudge(careful()), terms=("e2e", "format", "adherence", "plan_quality"))
    e2e = found["overall"]["e2e"]
    assert e2e["accuracy"]["value"] == e2e["kappa"]["value"] == e2e["success_accuracy"]["value"] == 1
    assert e2e["judged"] == EPISODES and e2e["errors"] == 0
    counts = [row[at] for at, row in enumerate(e2e["confusion"])]
    assert min(counts) > 10 and sum(counts) == EPISODES
    assert found["overall"]["format"]["accuracy"]["value"] == 1
    assert found["overall"]["adherence"]["rank_correlation"]["value"] == pytest.approx(1)
    assert found["overall"]["plan_quality"]["rank_correlation"]["value"] > 0.5
    assert list(found["envs"]) == ["AdaPlan/Maze-v0"] and found["tokens"] > 0


@pytest.mark.parametrize("rate", [0.1, 0.3])
def test_errors_at_a_known_rate_come_out_at_that_rate(run: Run, rate: float) -> None:
    found = judge_check(run, LLMJudge(careful(rate)), terms=["e2e"])["overall"]["e2e"]
    accuracy = found["accuracy"]
    assert accuracy["low"] <= 1 - rate <= accuracy["high"]
    assert accuracy["value"] == pytest.approx(1 - rate, abs=0.12)
    assert found["kappa"]["value"] < accuracy["value"]


def test_a_judge_without_an_answer_is_counted_and_in_no_rate(run: Run) -> None:
    def half(messages: list[dict[str, str]]) -> str:
        answer = careful().replies(messages[:2])  # type: ignore[operator]
        return answer if len(messages[1]["content"]) % 2 else "I'd rather not."  # type: ignore[return-value]

    found = judge_check(run, LLMJudge(ScriptedModel(half)), terms=["e2e"])
    e2e = found["overall"]["e2e"]
    assert e2e["errors"] > 0 and e2e["errors"] + e2e["judged"] == EPISODES
    assert e2e["accuracy"] == {
        "value": 1.0,
        **{key: e2e["accuracy"][key] for key in ("low", "high")},
        "n": e2e["judged"],
    }
    assert found["failures"] == {"asked again": e2e["errors"], "unusable": e2e["errors"]}


def test_several_runs_are_judged_together(run: Run, tmp_path: Path) -> None:
    evaluate("expert", "textcraft", episodes=4, out=tmp_path / "expert")
    found = judge_check([run, load_run(tmp_path / "expert")], LLMJudge(careful()), terms=["e2e"], episodes=3)
    assert {name: each["e2e"]["judged"] for name, each in found["envs"].items()} == {
        "AdaPlan/Maze-v0": 3,
        "AdaPlan/TextCraft-v0": 3,
    }
    assert found["overall"]["e2e"]["judged"] == 6 and found["run"] == "mixed, expert"


def test_episodes_can_be_limited_and_an_empty_run_is_refused(run: Run) -> None:
    found = judge_check(run, LLMJudge(careful()), terms=["e2e"], episodes=5)
    assert found["episodes"] == 5
    empty = Run({"config": {"agent": {"name": "nobody"}}}, episodes=[])
    with pytest.raises(ConfigError, match="no episode"):
        judge_check(empty, LLMJudge(careful()))


def test_the_command_prints_tables_and_writes_the_figures(
    run: Run, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from adaplan_evaluation import measure_commands
    from tests.evaluation.test_fidelity import call

    monkeypatch.setenv("COLUMNS", "100")
    spec = "scripted:tests.evaluation.judging:RIGHT"
    out = tmp_path / "check.json"
    argv = [str(run.path), "--judge", spec, "--episodes", "9", "--terms", "e2e,adherence", "--out", str(out)]
    assert call(measure_commands.JUDGE_CHECK, argv) == 0
    shown = capsys.readouterr().out
    assert "redundant" in shown and "100 [" in shown and "adherence" in shown
    assert json.loads(out.read_text())["overall"]["e2e"]["accuracy"]["value"] == 1
