"""The paper's tables in small: the grid is made, kept, mended where it broke, and printed in the paper's layout."""

from __future__ import annotations

import argparse
import re
from configparser import ConfigParser
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adaplan_envs.errors import ConfigError, UnknownNameError
from adaplan_training import reproduce
from adaplan_training.check_run import check_run
from adaplan_training.commands_study import REPRODUCE
from adaplan_training.reproduce import Study, StudyConfig
from adaplan_training.scales import SCALES
from adaplan_training.studies import TABLES
from adaplan_training.study_tables import main_table
from adaplan_training.trainer import train
from tests.conftest import ROOT
from tests.training.tiny import save_tiny

SMALL = (
    "model.precision=float32",
    "model.device=cpu",
    "agent.turn_tokens=2",
    "agent.episode_tokens=4096",
    "rollout.envs=maze",
    "rollout.tasks=1",
    "rollout.groups=1",
    "rollout.group_size=2",
    "rollout.max_steps=1",
    "log.tensorboard=false",
    "log.episodes_every=1",
)


def small(folder: Path, **changes: Any) -> StudyConfig:
    if not (folder / "model").exists():
        save_tiny(folder / "model", window=4096)
    settings = {"envs": "maze", "episodes": 2, "seeds": (0,), "model": f"hf:{folder / 'model'}", "overrides": SMALL}
    return StudyConfig(out=str(folder / "out"), **{**settings, **changes})


def command(*words: str) -> int:
    parser = argparse.ArgumentParser()
    REPRODUCE.configure(parser)
    return REPRODUCE.run(parser.parse_intermixed_args(list(words)))


def test_every_table_of_the_paper_that_compares_is_there_and_its_cells_are_listed(tmp_path: Path) -> None:
    assert set(TABLES) == {"1", "2", "3", "4", "6", "7", "8", "9", "10", "figure3"}
    for name in TABLES:
        for scale in SCALES:
            study = Study(name, StudyConfig(scale, str(tmp_path), frontier=("openai:x",)))
            cells = study.plan()
            assert all(cell.startswith("to do: ") for cell in cells) and len(cells) == len(set(cells))
            for row in study.rows:  # every run that a table needs is a valid recipe
                for training in reproduce._needs(row.training):
                    study._config(training, 0)
    main = Study("1", StudyConfig("paper", str(tmp_path)))
    assert [row.label for row in main.rows] == [
        "naive, untrained", "ReAct, untrained", "MPO", "SFT", "vanilla RL", "PilotRL",
    ]  # fmt: skip
    orders = [row.training for row in TABLES["2"].rows]
    epochs = [sum(stage.epochs or 0 for stage in main._config(each, 0).stages) for each in orders if each]
    assert epochs == pytest.approx([4] * 6)


def test_wrong_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="unknown table '5'"):
        Study("5", StudyConfig())
    with pytest.raises(UnknownNameError, match="did you mean 'tiny'"):
        StudyConfig("tinny")
    with pytest.raises(ConfigError, match="--frontier openai:NAME"):
        Study("10", StudyConfig())


@pytest.mark.slow
def test_a_grid_is_made_kept_and_mended_where_it_broke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = small(tmp_path)

    def broken(run: Any, **options: Any) -> Any:
        if run.out.endswith("executor"):
            raise RuntimeError("power cut")
        return train(run, **options)

    monkeypatch.setattr(reproduce, "train", broken)
    study = Study("4", config)
    unified, isolated = study.run()
    assert (len(unified.runs), unified.failures) == (1, ())
    assert isolated.failures == ("isolated, two models, seed 0: RuntimeError: power cut",)
    page = main_table(study, [unified, isolated])
    assert "power cut" in page and re.search(r"\| isolated, two models \| - \|", page)
    told: list[str] = []
    monkeypatch.setattr(reproduce, "train", train)
    unified, isolated = Study("4", config, told.append).run()
    assert not isolated.failures and isolated.runs[0].results["config"]["agent"]["mode"] == "isolated"
    assert told == ["training: executor, seed 0", "playing: isolated, two models, seed 0"]
    told.clear()
    again = Study("4", config, told.append)
    assert all(cell.startswith("kept: ") for cell in again.plan())
    page = main_table(again, again.run())
    assert told == []
    assert re.search(r"\| unified, one model \| \d+\.\d \[\d+, \d+\] \|.* \(blank\) \|", page)
    assert "## Differences from the paper's protocol" in page and "rollout.envs=maze" in page
    check = check_run(tmp_path / "out")
    assert check.wrong == [] and check.values > 0 and check.revisions >= 0
    (changed,) = (cells for cells in Study("4", small(tmp_path, episodes=3)).run()[:1])
    assert "played with episodes=2" in changed.failures[0]


@pytest.mark.slow
def test_the_whole_way_at_tiny_scale_from_random_weights_to_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small_scale = replace(SCALES["tiny"], weights={"3M": 300_000}, demos=2)
    monkeypatch.setattr(reproduce, "SCALES", {**SCALES, "tiny": small_scale})
    options = ["--out", str(tmp_path), "--seeds", "1", "--episodes", "1", "--envs", "maze"]
    assert command("1", *SMALL, *options) == 0
    page = (tmp_path / "tiny" / "3M" / "table-1.md").read_text()
    for label in ("naive, untrained", "ReAct, untrained", "MPO", "SFT", "vanilla RL", "PilotRL"):
        assert f"| {label} |" in page
    assert command("figure3", *SMALL, *options) == 0
    assert (tmp_path / "tiny" / "3M" / "figure3.png").stat().st_size > 1000
    figure = (tmp_path / "tiny" / "3M" / "figure3.md").read_text()
    assert all(re.search(rf"^\| {stage} \|", figure, re.M) for stage in (1, 2, 3))
    capsys.readouterr()
    spec = "scripted:tests.training.test_reproduce:judge"
    assert command("10", *SMALL, *options, "--frontier", spec) == 0
    agreement = (tmp_path / "tiny" / "3M" / "table-10.md").read_text()
    assert f"| {spec} |" in agreement
    assert command("9", *SMALL, *options, "--frontier", spec) == 0
    frontier = (tmp_path / "tiny" / "3M" / "table-9.md").read_text()
    assert "| expert and rules (simulator) |" in frontier and f"| {spec} |" in frontier


def judge(messages: Any) -> str:
    """A judge that always says the same."""
    return '{"reason": "so", "score": 0, "correctness": 1, "executability": 1, "standardisation": 1}'


def test_the_commands_are_registered() -> None:
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    commands = setup["options.entry_points"]["adaplan.commands"]
    assert "reproduce = adaplan_training.commands_study:REPRODUCE" in commands
    assert "check-run = adaplan_training.commands_study:CHECK_RUN" in commands
