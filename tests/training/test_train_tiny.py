"""`make train-tiny`, from the model of random weights to the table, with a step of each kind."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import load_script

pytest.importorskip("torch")

SMALL = (
    "stages.0.steps=1",
    "eval.episodes=2",
    "eval.repeats=1",
    "rollout.groups=2",
    "rollout.group_size=2",
    "rollout.max_steps=2",
)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = load_script("train_tiny")
    monkeypatch.setattr(module, "DEMOS", {**module.DEMOS, "tasks": 3, "repeats": 1})
    return module


def test_it_goes_from_random_weights_to_a_table_and_a_picture_and_does_nothing_twice(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "curve.svg"
    monkeypatch.setattr(sys, "argv", ["train_tiny.py", "--out", str(tmp_path), "--picture", str(picture), *SMALL])
    script.main()
    shown = capsys.readouterr().out
    assert "random weights" in shown and "seed-0" in shown
    assert picture.read_text().startswith("<?xml")
    written = {path: path.read_text() for path in tmp_path.rglob("metrics.jsonl")}
    assert {path.parent.name for path in written} == {"sft", "grpo"}
    script.main()
    assert {path: path.read_text() for path in written} == written
    table = [line for line in capsys.readouterr().out.splitlines() if line.startswith("seed-0")]
    assert table == [line for line in shown.splitlines() if line.startswith("seed-0")]
