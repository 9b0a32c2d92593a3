"""`adaplan envs`, `play` and `doctor`, run as a user runs them."""

from __future__ import annotations

import configparser
import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from adaplan_envs import cli, resolve_id
from adaplan_envs.commands import doctor
from adaplan_envs.commands.doctor import Check, Status
from adaplan_envs.commands.envs import describe
from adaplan_envs.errors import UnknownNameError
from adaplan_envs.registration import Entry

ROOT = Path(__file__).parents[2]
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return a function that puts a distribution with metadata of our choice in front of all others."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(ROOT)]))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def write(name: str, version: str, requires: tuple[str, ...] = (), extras: tuple[str, ...] = ()) -> None:
        folder = tmp_path / f"{name}-{version}.dist-info"
        folder.mkdir()
        lines = ["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}", "Requires-Python: >=3.11"]
        lines += [f"Provides-Extra: {extra}" for extra in extras] + [f"Requires-Dist: {line}" for line in requires]
        (folder / "METADATA").write_text("\n".join(lines) + "\n")
        if name == "adaplan":
            setup = configparser.ConfigParser()
            setup.read(ROOT / "setup.cfg")
            (folder / "entry_points.txt").write_text(
                f"[adaplan.commands]\n{setup['options.entry_points']['adaplan.commands']}\n"
            )

    return write


@pytest.fixture
def adaplan(install: Install) -> Callable[..., int]:
    """Return a function that runs ``adaplan ARGS...``, installed with one needed package and three extras."""
    install(
        "adaplan",
        "9.9",
        (
            "numpy>=1.26",
            'toolbox>=2; extra == "tools"',
            'adaplan[tools]; extra == "more"',
            'gadget; extra == "more"',
            'minigrid; extra == "babyai"',
        ),
        ("tools", "more", "babyai"),
    )
    return lambda *args: cli.main(args)


def type_in(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))


# -- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["maze", "MAZE", " Maze ", "Maze-v0", "adaplan/maze-v0", "adaplan_envs:AdaPlan/Maze-v0"]
)
def test_an_environment_has_a_short_name_in_any_case(name: str) -> None:
    assert resolve_id(name) == "AdaPlan/Maze-v0"


def test_any_other_registered_id_is_left_alone() -> None:
    assert resolve_id("CartPole-v1") == "CartPole-v1"


def test_an_unknown_name_lists_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'textcraft'"):
        resolve_id("textcraf")


# -- adaplan envs ----------------------------------------------------------------------------------------------------


def test_envs_lists_ids_splits_and_sizes(adaplan: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert adaplan("envs") == 0
    shown = capsys.readouterr().out
    for text in ("AdaPlan/Maze-v0", "train 2,000", "test 215", "agentgym 25", "AdaPlan/ALFWorld-v0", "nothing more"):
        assert text in shown


def test_envs_as_json_has_a_row_for_every_id(adaplan: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert adaplan("envs", "--json") == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert list(rows) == ["alfworld", "babyai", "textcraft", "wordle", "maze", "iqa"]
    assert rows["maze"] == {
        "id": "AdaPlan/Maze-v0",
        "name": "maze",
        "splits": {"train": 2000, "test": 215, "agentgym": 25},
        "rulesets": ["default", "agentgym"],
        "extra": None,
        "installed": True,
        "problem": None,
    }


def test_an_environment_whose_packages_are_missing_is_listed_with_the_line_that_installs_them() -> None:
    row = describe(Entry("AdaPlan/Chess-v0", "nowhere:ChessEnv", "chess", ("no_such_module",)))
    assert (row.installed, row.splits, row.problem) == (False, {}, 'pip install "adaplan[chess]"')


def test_an_environment_that_breaks_on_import_is_listed_with_its_error() -> None:
    row = describe(Entry("AdaPlan/Chess-v0", "adaplan_envs.chess.env:ChessEnv"))
    assert row.problem is not None and "No module named 'adaplan_envs.chess'" in row.problem


# -- adaplan play ----------------------------------------------------------------------------------------------------


def test_play_shows_rules_goal_and_observations_and_ends_with_the_outcome(
    adaplan: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    type_in(monkeypatch, "?\n!plan\n!what\n\nleft\ndown\nnever read\n")
    assert adaplan("play", "maze", "--task", "maze/agentgym/0018") == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Find your way through a maze")
    for text in (
        "Task maze/agentgym/0018: Reach the goal at 8, 6",
        "You are at 7, 6. The goal is at 8, 6. Walls: right, left.",
        "> ?\nmove up\nmove down\n",
        "> !plan\n1. Move down to 8, 6.\n",
        "> left\nYou bump into a wall.",
        "> down\nYou have reached the goal.\n\nsuccess: 2 of at most 100 steps, score 1.00\n",
    ):
        assert text in shown
    assert "never read" not in shown


def test_play_ends_when_the_input_does(
    adaplan: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    type_in(monkeypatch, "up")
    assert adaplan("play", "Maze-v0", "--task", "maze/agentgym/0018", "--rules", "agentgym") == 0
    assert capsys.readouterr().out.endswith("left: 1 of at most 51 steps, score 0.00\n")


def test_the_seed_picks_the_task(
    adaplan: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = []
    for seed in ("1", "1", "2"):
        type_in(monkeypatch, "!quit\n")
        assert adaplan("play", "maze", "--split", "test", "--seed", seed) == 0
        shown.append(capsys.readouterr().out)
    assert "Task maze/test/" in shown[0]
    assert shown[0] == shown[1] != shown[2]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("play", "mase"), "did you mean 'maze'?"),
        (("play", "maze", "--split", "tset"), "did you mean 'test'?"),
        (("play", "maze", "--rules", "chess"), "Valid: 'agentgym', 'default'"),
        (("play", "maze", "--task", "maze/test/9999"), "maze/test/0214"),
        (("play", "CartPole-v1"), "no text environment"),
        (("doctor", "--extra", "tool"), "did you mean 'tools'?"),
    ],
)
def test_wrong_arguments_are_one_line_that_names_the_right_ones(
    adaplan: Callable[..., int], capsys: pytest.CaptureFixture[str], args: tuple[str, ...], message: str
) -> None:
    assert adaplan(*args) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


@pytest.mark.usefixtures("adaplan")
def test_play_prompts_on_a_terminal() -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "adaplan_envs.cli", "play", "maze", "--task", "maze/agentgym/0018"]
    with subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        os.write(ours, b"down\n")
        shown = process.communicate(timeout=60)[0]
    os.close(ours), os.close(theirs)
    assert "> You have reached the goal." in shown and process.returncode == 0


# -- adaplan doctor --------------------------------------------------------------------------------------------------


def found(capsys: pytest.CaptureFixture[str]) -> dict[str, Check]:
    return {row["name"]: Check(**row) for row in json.loads(capsys.readouterr().out)}


@pytest.fixture
def no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare a test the seconds that starting torch takes."""
    monkeypatch.setattr(doctor, "check_torch", lambda asked: Check("torch", Status.NOTE, "not looked at"))


@pytest.mark.usefixtures("no_torch")
def test_doctor_is_content_without_extras_and_says_how_to_add_them(
    adaplan: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert adaplan("doctor", "--json") == 0
    checks = found(capsys)
    assert checks["packages"].status == Status.OK and checks["packages"].detail.startswith("numpy ")
    assert checks["python"].status == Status.OK
    assert checks["extra more"] == Check(
        "extra more", Status.NOTE, "missing: toolbox, gadget", 'pip install "adaplan[more]"'
    )
    assert adaplan("doctor") == 0
    assert '\n  pip install "adaplan[tools]"\n' in capsys.readouterr().out


@pytest.mark.usefixtures("no_torch")
def test_doctor_fails_when_an_extra_that_was_asked_for_is_missing_or_too_old(
    adaplan: Callable[..., int], install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    assert adaplan("doctor", "--extra", "tools", "--json") == 1
    assert found(capsys)["extra tools"].detail == "missing: toolbox"
    install("toolbox", "1.5")
    assert adaplan("doctor", "--extra", "tools", "--json") == 1
    assert found(capsys)["extra tools"].detail == "toolbox is 1.5, needs >=2"
    assert adaplan("doctor", "--json") == 0
    assert found(capsys)["extra tools"].status == Status.NOTE


@pytest.mark.usefixtures("no_torch")
def test_doctor_tries_what_was_asked_for(
    adaplan: Callable[..., int], install: Install, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install("toolbox", "2.1")
    module = tmp_path / "toolbox.py"
    (tmp_path / "toolbox-2.1.dist-info" / "top_level.txt").write_text("toolbox\n")
    module.write_text("raise OSError('libtool.so is missing')\n")
    assert adaplan("doctor", "--json") == 0, "not asked for, so not imported"
    capsys.readouterr()
    assert adaplan("doctor", "--extra", "tools", "--json") == 1
    check = found(capsys)["import toolbox"]
    assert check.detail == "OSError: libtool.so is missing"
    assert check.mend == 'pip install --force-reinstall "toolbox>=2"'
    module.write_text("import os; os.abort()\n")
    assert adaplan("doctor", "--extra", "tools", "--json") == 1, "a crash is survived"
    assert found(capsys)["import toolbox"].status == Status.BROKEN
    module.write_text("")
    assert adaplan("doctor", "--extra", "tools", "--json") == 0


@pytest.mark.usefixtures("no_torch", "adaplan")
def test_doctor_finds_a_needed_package_that_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor.importlib.metadata, "requires", lambda name: ["no-such-package>=1"])
    assert cli.main(["doctor", "--json"]) == 1
    assert found(capsys)["packages"].mend == "pip install --upgrade adaplan"


def test_a_cache_folder_that_takes_no_files_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    check = doctor.check_cache()
    assert check.status is Status.BROKEN and "XDG_CACHE_HOME" in str(check.mend)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "folder"))
    assert doctor.check_cache().status is Status.OK
    assert list((tmp_path / "folder" / "adaplan").iterdir()) == []


@pytest.mark.parametrize(("version", "status"), [("3.25.1", Status.OK), ("4.1.0", Status.BROKEN)])
def test_a_cmake_too_new_for_the_planner_is_found(
    version: str, status: Status, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("cmake", "g++"):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {name} version {version}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(doctor, "_BUILT", "not-installed-anywhere")
    check = doctor.check_build_tools(asked=True)
    assert check.status is status and version in check.detail


def test_without_a_compiler_the_planner_cannot_be_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(doctor, "_BUILT", "not-installed-anywhere")
    assert doctor.check_build_tools(asked=False).status is Status.NOTE
    assert doctor.check_build_tools(asked=True).status is Status.BROKEN


@pytest.mark.slow
def test_doctor_says_on_what_torch_computes() -> None:
    pytest.importorskip("torch")
    check = doctor.check_torch(asked=True)
    assert check.status is Status.OK and ("CPU" in check.detail or "GPU" in check.detail)


@pytest.mark.usefixtures("no_torch")
@pytest.mark.parametrize(("env_id", "status"), [("AdaPlan/Maze-v0", Status.OK), ("AdaPlan/Chess-v0", Status.BROKEN)])
def test_doctor_begins_an_episode_of_an_environment_that_was_asked_for(
    env_id: str,
    status: Status,
    adaplan: Callable[..., int],
    install: Install,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    install("toolbox", "2.1")
    monkeypatch.setattr(doctor, "SUITE", (Entry(env_id, "unused:Unused", "tools"),))
    assert adaplan("doctor", "--extra", "tools", "--json") == (status is Status.BROKEN)
    assert found(capsys)[env_id].status == status
