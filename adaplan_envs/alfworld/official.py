"""The official ALFWorld games: fetched once, indexed once, then read one by one.

``adaplan data get alfworld`` puts each game into a small file of its own and writes an index, so that an environment
neither scans folders nor unpacks anything when it starts.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import httpx
import platformdirs

from adaplan_envs.alfworld.world import Game, Goal
from adaplan_envs.errors import ConfigError, DataMissingError

SIZES = {"official_train": 3553, "valid_seen": 140, "valid_unseen": 134}
"""Games of each split in the full release."""
URL = "https://github.com/alfworld/alfworld/releases/download/0.4.0/json_2.1.2_tw-pddl.zip"
COMMAND = "adaplan data get alfworld"

_SPLITS = {"train": "official_train", "valid_seen": "valid_seen", "valid_unseen": "valid_unseen"}
_GAME = re.compile(r"(?:^|/)(train|valid_seen|valid_unseen)/([^/]+)/([^/]+)/game\.tw-pddl$")
_TASK = re.compile(r"Your task is to: (.*)\.\"")

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is (0 if unknown)."""


@dataclass(frozen=True, slots=True)
class Installed:
    """What `install` has put in place: the number of games per split, how many were passed over, and where."""

    sizes: dict[str, int]
    skipped: int
    folder: Path

    @property
    def complete(self) -> bool:
        """Whether it is the full release, so that task ids mean the same game everywhere."""
        return self.sizes == SIZES


def folder() -> Path:
    """Return where the games are kept, below the user's cache folder."""
    return platformdirs.user_cache_path("adaplan") / "alfworld" / "official"


def installed_sizes() -> dict[str, int]:
    """Return the number of installed games of each split that has any; empty before `install`."""
    return {split: len(games) for split, games in _index().items() if games}


def load_game(split: str, index: int) -> Game:
    """Return official game `index` of `split`.

    Raises:
        DataMissingError: the games are not installed, or not this one, or its file is damaged.
    """
    games = _index().get(split, [])
    if index >= len(games):
        have = f"only {len(games)} of its {SIZES[split]} games are installed" if games else "it is not installed"
        raise DataMissingError(f"game {index} of {split} is missing: {have}. Get the official games with: {COMMAND}")
    path = folder() / split / f"{index:04d}.json.gz"
    try:
        content = gzip.decompress(path.read_bytes())
        damaged = hashlib.sha256(content).hexdigest() != games[index]["sha256"]
    except (OSError, EOFError) as error:
        raise DataMissingError(f"{path} can't be read ({error}). Get the games again with: {COMMAND}") from error
    if damaged:
        raise DataMissingError(f"{path} is not what was installed. Get the games again with: {COMMAND}")
    record = json.loads(content)
    problem = record["problem"]
    start = problem.partition("(:goal")[0]
    wanted = Goal.parse(problem).object
    kinds = re.findall(r"\(objecttype (\S+) (\S+)\)", start.lower())
    portable = set(re.findall(r"\(pickupable (\S+)\)", start.lower()))
    return Game(
        problem=problem,
        task=record["task"],
        walkthrough=tuple(record["walkthrough"]),
        receptacles=start.count("(receptacleAtLocation "),
        objects=len(portable),
        distractors=sum(kind != wanted for thing, kind in kinds if thing in portable),
    )


def _index() -> dict[str, list[dict[str, str]]]:
    path = folder() / "index.json"
    try:
        return _read_index(path, path.stat().st_mtime_ns)
    except FileNotFoundError:
        return {}


@lru_cache(maxsize=4)
def _read_index(path: Path, mtime: int) -> dict[str, list[dict[str, str]]]:
    content: dict[str, list[dict[str, str]]] = json.loads(path.read_text(encoding="utf-8"))["splits"]
    return content


def install(source: Path, progress: Progress = lambda *_: None) -> Installed:
    """Install the games of `source`, a folder or zip file that holds ``SPLIT/TASK/TRIAL/game.tw-pddl`` somewhere.

    Games are numbered in the order of TASK/TRIAL. As in ALFWorld, those with movable receptacles or sliced objects and
    those not marked solvable are passed over. The old installation is replaced at the end, in one step.

    Raises:
        ConfigError: there is no such file, or nothing in it.
    """
    target = folder()
    work = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    shutil.rmtree(work, ignore_errors=True)
    splits: dict[str, list[dict[str, str]]] = {split: [] for split in SIZES}
    skipped = 0
    try:
        for done, total, (split, name, content) in _games(source):
            progress("reading games", done, total)
            record = _record(name, content)
            if record is None:
                skipped += 1
                continue
            text = json.dumps(record, sort_keys=True).encode()
            path = work / split / f"{len(splits[split]):04d}.json.gz"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(gzip.compress(text, mtime=0))
            splits[split].append({"game": name, "sha256": hashlib.sha256(text).hexdigest()})
        if not any(splits.values()):
            raise ConfigError(f"no ALFWorld games in {source}: it should hold SPLIT/TASK/TRIAL/game.tw-pddl files")
        (work / "index.json").write_text(json.dumps({"source": URL, "splits": splits}), encoding="utf-8")
        shutil.rmtree(target, ignore_errors=True)
        work.replace(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return Installed({split: len(games) for split, games in splits.items()}, skipped, target)


def _games(source: Path) -> Iterator[tuple[int, int, tuple[str, str, bytes]]]:
    """Yield (how many before, how many in all, (split, TASK/TRIAL, content)) in the order of TASK/TRIAL."""
    if source.is_dir():
        found = {path.relative_to(source).as_posix(): path for path in source.rglob("game.tw-pddl")}
        # The folder given may be a split itself.
        names = {f"{source.resolve().name}/{name}" if not _GAME.search(name) else name: name for name in found}
        yield from _sorted(names, lambda name: found[name].read_bytes())
    elif source.is_file() and zipfile.is_zipfile(source):
        with zipfile.ZipFile(source) as archive:
            # Reading a member checks its checksum; nothing is unpacked to disk.
            yield from _sorted({name: name for name in archive.namelist()}, archive.read)
    else:
        raise ConfigError(f"{source} is neither a folder nor a zip file")


def _sorted(names: dict[str, str], read: Callable[[str], bytes]) -> Iterator[tuple[int, int, tuple[str, str, bytes]]]:
    hits = [(hit, name) for full, name in names.items() if (hit := _GAME.search(full))]
    order = sorted((_SPLITS[hit[1]], f"{hit[2]}/{hit[3]}", name) for hit, name in hits)
    for done, (split, game, name) in enumerate(order):
        yield done, len(order), (split, game, read(name))


def _record(name: str, content: bytes) -> dict[str, Any] | None:
    if "movable" in name or "Sliced" in name:
        return None
    try:
        game = json.loads(content)
        task = _TASK.search(game["grammar"])
        if not game.get("solvable") or task is None:
            return None
        return {"task": task[1], "problem": game["pddl_problem"], "walkthrough": list(game.get("walkthrough") or ())}
    except (ValueError, KeyError, TypeError):
        return None


def download(progress: Progress = lambda *_: None, url: str = URL) -> Path:
    """Fetch the release, going on where an earlier attempt stopped, and return the file.

    Raises:
        DataMissingError: the server can't be reached or does not have it; the message says how to go on by hand.
    """
    target = folder().parent / url.rpartition("/")[2]
    part = target.with_name(f"{target.name}.part")
    target.parent.mkdir(parents=True, exist_ok=True)
    have = part.stat().st_size if part.exists() else 0
    headers = {"Range": f"bytes={have}-"} if have else {}
    try:
        with httpx.stream("GET", url, headers=headers, follow_redirects=True, timeout=30) as response:
            if response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
                total = have  # it was all there
            else:
                response.raise_for_status()
                if response.status_code != httpx.codes.PARTIAL_CONTENT:
                    have = 0  # the server sends it whole
                length = int(response.headers.get("Content-Length", 0))
                total = have + length if length else 0
                with part.open("ab" if have else "wb") as file:
                    for chunk in response.iter_bytes():
                        file.write(chunk)
                        have += len(chunk)
                        progress("downloading", have, total)
    except httpx.HTTPError as error:
        raise DataMissingError(
            f"could not fetch {url} ({type(error).__name__}: {error}). Run the command again to go on from "
            f"{have:,} bytes, or get the file another way and run: {COMMAND} --from FILE"
        ) from error
    if (total and have != total) or not zipfile.is_zipfile(part):
        if not total or have >= total:
            part.unlink()  # complete but not a zip file: going on from it would not help
        raise DataMissingError(f"{url} came incomplete ({have:,} of {total:,} bytes). Run the command again: {COMMAND}")
    return part.replace(target)
