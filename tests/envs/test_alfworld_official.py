"""The official ALFWorld games: fetching, installing, reading, playing."""

from __future__ import annotations

import http.server
import json
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest

pytest.importorskip("alfworld", reason="pip install adaplan[alfworld]")
pytest.importorskip("textworld", reason="pip install adaplan[alfworld]")

from adaplan_envs.alfworld import official
from adaplan_envs.alfworld.generator import make_game
from adaplan_envs.cli import main
from adaplan_envs.errors import ConfigError, DataMissingError
from benchmarks.alfworld_stock import game_file
from tests.envs.alfworld import official_games

ID = "adaplan_envs:AdaPlan/ALFWorld-v0"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "adaplan" / "alfworld"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a small copy of the release, made of embedded games."""
    root = tmp_path / "copy" / "json_2.1.1"
    for number, where in enumerate(
        ["valid_seen/b/trial_2", "valid_seen/a/trial_9", "valid_seen/b/trial_1", "valid_unseen/c/trial_1"]
    ):
        write(root / where, game_file(make_game("test", number)[0]))
    write(root / "valid_seen" / "pick_and_place_with_movable_recep-x" / "t", game_file(make_game("test", 0)[0]))
    write(root / "valid_seen" / "z" / "t", {**game_file(make_game("test", 0)[0]), "solvable": False})
    return root.parent


def write(folder: Path, content: dict[str, Any]) -> None:
    folder.mkdir(parents=True)
    (folder / "game.tw-pddl").write_text(json.dumps(content))


def test_without_them_the_error_holds_the_command() -> None:
    for split in official.SIZES:
        with pytest.raises(DataMissingError, match="adaplan data get alfworld"):
            gymnasium.make(ID, split=split)
    env = gymnasium.make(ID)
    with pytest.raises(DataMissingError, match="adaplan data get alfworld"):
        env.reset(options={"task_id": "alfworld/valid_seen/0000"})


@pytest.mark.parametrize("packed", [False, True])
def test_they_are_numbered_in_the_order_of_their_folders(copy: Path, tmp_path: Path, packed: bool) -> None:
    source = copy
    if packed:
        source = tmp_path / "copy.zip"
        with zipfile.ZipFile(source, "w") as archive:
            for path in copy.rglob("*.tw-pddl"):
                archive.write(path, path.relative_to(copy))
    installed = official.install(source)
    assert installed.sizes == {"official_train": 0, "valid_seen": 3, "valid_unseen": 1}
    assert installed.skipped == 2
    assert not installed.complete
    tasks = [official.load_game("valid_seen", index).task for index in range(3)]
    assert tasks == [make_game("test", number)[0].task for number in (1, 2, 0)]


def test_they_play_like_any_other(copy: Path) -> None:
    official.install(copy)
    env: Any = gymnasium.make(ID, split="valid_seen").unwrapped
    assert env.splits["valid_seen"] == 3
    _, info = env.reset(options={"task_id": "alfworld/valid_seen/0001"})
    assert info["goal"] == make_game("test", 2)[0].task
    while info["stop_reason"] is None:
        info = env.step(env.expert.action())[-1]
    assert info["success"]
    with pytest.raises(DataMissingError, match="only 3 of its 140"):
        env.make_task("valid_seen", 3)
    env.close()


def test_a_new_installation_replaces_the_old_one_and_a_failed_one_does_not(copy: Path, tmp_path: Path) -> None:
    official.install(copy)
    (tmp_path / "empty").mkdir()
    for wrong in (tmp_path / "empty", tmp_path / "missing.zip"):
        with pytest.raises(ConfigError):
            official.install(wrong)
    assert official.installed_sizes() == {"valid_seen": 3, "valid_unseen": 1}
    official.install(copy / "json_2.1.1" / "valid_unseen")
    assert official.installed_sizes() == {"valid_unseen": 1}
    assert [path.name for path in official.folder().parent.iterdir()] == ["official"], "nothing temporary is left"


@pytest.mark.parametrize("damage", [b"", b"not gzip", None])
def test_a_damaged_file_is_found_out(copy: Path, damage: bytes | None) -> None:
    official.install(copy)
    path = official.folder() / "valid_seen" / "0000.json.gz"
    path.write_bytes((path.parent / "0001.json.gz").read_bytes() if damage is None else damage)
    with pytest.raises(DataMissingError, match="adaplan data get alfworld"):
        official.load_game("valid_seen", 0)


class Release(http.server.BaseHTTPRequestHandler):
    """Serves one file, with ranges, and breaks off after `patience` bytes."""

    content = b""
    patience = 10**9
    asked: list[str | None] = []

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.asked.append(wanted)
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(len(self.content) - start))
        self.end_headers()
        self.wfile.write(self.content[start : start + self.patience])

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server(copy: Path, tmp_path: Path) -> Iterator[str]:
    path = tmp_path / "release.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for found in copy.rglob("*.tw-pddl"):
            archive.write(found, found.relative_to(copy))
    Release.content, Release.patience, Release.asked = path.read_bytes(), 10**9, []
    serving = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Release)
    thread = threading.Thread(target=serving.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{serving.server_address[1]}/release.zip"
    serving.shutdown()
    serving.server_close()
    thread.join()


def test_a_broken_download_goes_on_where_it_stopped(server: str) -> None:
    Release.patience = 1000
    with pytest.raises(DataMissingError, match="1,000 bytes"):
        official.download(url=server)
    Release.patience = 10**9
    path = official.download(url=server)
    assert Release.asked == [None, "bytes=1000-"]
    assert path.read_bytes() == Release.content
    assert official.install(path).sizes["valid_seen"] == 3


def test_what_is_no_zip_file_is_not_kept(server: str) -> None:
    Release.content = b"<html>moved</html>"
    with pytest.raises(DataMissingError):
        official.download(url=server)
    assert list(official.folder().parent.iterdir()) == []


def test_a_dead_server_leaves_a_way_by_hand() -> None:
    with pytest.raises(DataMissingError, match="--from FILE"):
        official.download(url="http://127.0.0.1:9/release.zip")


def test_the_command_says_what_it_did(
    copy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from adaplan_envs.commands.data import COMMAND

    class Point:
        name = "data"

        def load(self) -> Any:
            return COMMAND

    monkeypatch.setattr("adaplan_envs.cli.entry_points", lambda group: [Point()])
    monkeypatch.setattr("adaplan_envs.cli.version", lambda name: "0")
    assert main(["data", "get", "alfworld", "--from", str(copy)]) == 0
    shown = capsys.readouterr()
    assert "valid_seen: 3 of 140 games" in shown.out
    assert "passed over: 2" in shown.out
    assert "not the full release" in shown.out
    assert main(["data", "get", "alfworld", "--from", str(copy / "nowhere")]) == 2
    assert "neither a folder nor a zip file" in capsys.readouterr().err


@pytest.mark.slow
def test_experts_and_walkthroughs_win_the_official_games(recorded: Any) -> None:
    from adaplan_envs.alfworld.engine import Engine, translate
    from adaplan_envs.alfworld.expert import solve
    from adaplan_envs.alfworld.world import Goal, Scene, State

    engine = Engine()
    for game in official_games(recorded)[::8]:
        problem = translate(game.problem)
        engine.load(problem)
        for command in game.walkthrough:
            assert engine.step(command), (game.task, command)
        assert engine.won
        engine.load(problem)
        scene = Scene(problem, Goal.parse(game.problem))
        for step in solve(State(scene, engine)):
            assert engine.step(step.command), (game.task, step)
        assert engine.won
        assert len(engine.played) <= 50
    engine.close()
