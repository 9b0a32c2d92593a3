"""Fidelity: a perfect simulator is faithful, one that errs at a known rate shows that rate."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from adaplan_envs.chat import ChatReply, Usage
from adaplan_envs.cli import Command
from adaplan_envs.errors import ConfigError, UnknownNameError
from adaplan_envs.registration import installed_ids
from adaplan_evaluation import evaluate, load_run
from adaplan_evaluation.fidelity import ASPECTS, fidelity
from adaplan_evaluation.measure_commands import FIDELITY

RATES = (*ASPECTS, "exact", "outcome", "faithful")


def call(command: Command, argv: list[str]) -> int:
    parser = argparse.ArgumentParser()
    command.configure(parser)
    return command.run(parser.parse_args(argv))


@pytest.mark.parametrize("env_id", installed_ids())
def test_a_perfect_simulator_is_faithful(env_id: str) -> None:
    found = fidelity(env_id, "scripted", episodes=2)["envs"][env_id]
    assert {name: found[name]["value"] for name in RATES} == dict.fromkeys(RATES, 1.0)
    assert found["episodes"] == 4 and found["errors"] == 0 and found["first_divergence"] is None
    assert found["fact_kinds"] and found["tokens"] > 0


@pytest.mark.parametrize("kind", ["observation", "valid"])
def test_an_error_rate_comes_out_and_in_its_own_aspect_alone(kind: str) -> None:
    found = fidelity("maze", f"scripted:0.2:{kind}", episodes=25, players=["expert"])["overall"]
    hit, clean = ("facts", "valid") if kind == "observation" else ("valid", "facts")
    assert found["exact"]["low"] <= 0.8 <= found["exact"]["high"]
    assert found[hit]["value"] == pytest.approx(0.8, abs=0.06)
    if kind == "observation":  # an action that is said to be invalid can't reach the goal either
        assert found[clean]["value"] == found["done"]["value"] == 1
    assert found["faithful"]["value"] < 0.5 and 1 <= found["first_divergence"] <= 10


def test_false_success_is_seen_in_success_done_and_outcome() -> None:
    found = fidelity("maze", "scripted:0.2:success", episodes=15, players=["expert"])["overall"]
    assert found["outcome"]["value"] < 1 and found["success"]["value"] < 1
    assert found["success"] == {**found["reward"]}
    assert found["steps"] < fidelity("maze", "scripted", episodes=15, players=["expert"])["overall"]["steps"]


def test_a_simulator_without_a_usable_answer_is_an_error_and_no_disagreement() -> None:
    found = fidelity("maze", "scripted:1.0:malformed", episodes=3)["overall"]
    assert found["errors"] == found["episodes"] == 6 and found["steps"] == 0
    assert found["exact"]["value"] is None and found["outcome"]["value"] is None


def test_recorded_actions_are_played_too(tmp_path: Path) -> None:
    evaluate("random", "maze", episodes=4, max_steps=6, out=tmp_path / "run")
    run = load_run(tmp_path / "run")
    found = fidelity("maze", "scripted", players=[], recorded=run)
    assert found["overall"]["episodes"] == 4 and found["overall"]["steps"] == 24
    assert found["overall"]["exact"]["value"] == 1 and found["players"] == ["recorded"]


class Dear:
    """Says no to everything, at a price."""

    name = "dear"

    async def chat(self, messages: Any, sampling: Any = None) -> ChatReply:
        answer = {"notes": "", "valid": False, "observation": "No.", "done": False, "success": False}
        return ChatReply(json.dumps(answer), Usage(100, 10, 1, 0.01))


def test_a_budget_ends_it_with_what_there_is() -> None:
    found = fidelity("maze", Dear(), episodes=5, concurrency=1, twin_settings={"max_cost": 0.25})
    assert found["played"] < found["sequences"] == 10
    assert found["overall"]["cost"] == pytest.approx(0.25)
    assert found["overall"]["steps"] == 25 and found["simulator"] == "dear"


def test_equal_seeds_give_equal_figures_at_any_concurrency() -> None:
    def figures(concurrency: int) -> Any:
        found = fidelity("maze,textcraft", "scripted:0.1", episodes=3, seed=7, concurrency=concurrency)
        return [{key: value for key, value in row.items() if key != "step_seconds"} for row in found["envs"].values()]

    assert figures(1) == figures(8)


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="expert"):
        fidelity("maze", "scripted", players=["exprt"])
    with pytest.raises(ConfigError, match="episodes"):
        fidelity("maze", "scripted", episodes=0)
    with pytest.raises(ConfigError, match="no actions"):
        fidelity("maze", "scripted", players=[])


def test_the_command_prints_a_table_and_writes_the_figures(tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "deep" / "fidelity.json"
    argv = ["--env", "maze,wordle", "--simulator", "scripted", "--episodes", "2", "--out", str(out)]
    assert call(FIDELITY, argv) == 0
    shown = capsys.readouterr().out
    assert "Maze" in shown and "Wordle" in shown and "100.0" in shown
    assert json.loads(out.read_text())["overall"]["exact"]["value"] == 1
