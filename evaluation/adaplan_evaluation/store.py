"""A run on disk: written so that a kill, a crash or a full disk costs at most the episodes that had not ended."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from adaplan_envs.errors import ConfigError, OutputError, nearest
from adaplan_evaluation.types import Episode, EpisodeKey

EPISODES, RESULTS = "episodes.jsonl", "results.json"


class Run:
    """A finished or unfinished run.

    Attributes:
        results: the content of ``results.json``; ``results["summary"]`` holds the rates, see `docs/evaluation.md`.
        path: its folder, or None for a run that was kept in memory.
    """

    def __init__(
        self, results: dict[str, Any], path: Path | None = None, episodes: list[Episode] | None = None
    ) -> None:
        self.results = results
        self.path = path
        if episodes is not None:
            self.__dict__["episodes"] = episodes

    @cached_property
    def episodes(self) -> list[Episode]:
        """The episodes with all their turns, in the order of (environment, task, repeat)."""
        return [] if self.path is None else sorted(read_episodes(self.path / EPISODES), key=lambda each: each.key)

    @property
    def name(self) -> str:
        """For tables."""
        agent: dict[str, Any] = self.results["config"]["agent"]
        return self.path.name if self.path is not None else str(agent.get("name", "run"))

    def __repr__(self) -> str:
        return f"Run({self.name!r}, complete={self.results['complete']})"


def load_run(path: str | Path) -> Run:
    """Return the run in folder `path`, one that was killed included.

    Raises:
        ConfigError: there is no run; the message names those nearby.
    """
    folder = Path(path)
    try:
        results = json.loads((folder / RESULTS).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        nearby = sorted(str(each.parent) for each in folder.parent.glob(f"*/{RESULTS}"))
        raise ConfigError(f"no run in {folder} (no {RESULTS}): {nearest(str(folder), nearby)}") from None
    except ValueError as error:
        raise ConfigError(f"{folder / RESULTS} is damaged: {error}") from None
    return Run(results, folder)


def read_episodes(path: Path, on_torn: Callable[[int], None] | None = None) -> list[Episode]:
    """Return the episodes of an ``episodes.jsonl``; the newest where one was played again.

    A last line without its end was being written when the process was killed: it is left out.

    Args:
        path: the file; one that isn't there holds no episodes.
        on_torn: is called with the number of bytes in front of such a line.

    Raises:
        ConfigError: another line is damaged.
    """
    episodes: dict[EpisodeKey, Episode] = {}
    offset = 0
    for number, line in enumerate(_lines(path), 1):
        if not line.endswith(b"\n"):
            if on_torn is not None:
                on_torn(offset)
            break
        try:
            episode = Episode.from_json(line.decode())
        except ValueError as error:
            raise ConfigError(f"{path}, line {number} is damaged ({error}): delete the line to go on") from None
        episodes[episode.key] = episode
        offset += len(line)
    return list(episodes.values())


def _lines(path: Path) -> Iterator[bytes]:
    with suppress(FileNotFoundError), path.open("rb") as file:  # bytes: a U+2028 in a model's answer is no line end
        yield from file


class EpisodeLog:
    """The file of episodes, opened for appending by one process at a time.

    Attributes:
        found: the episodes that were there, without their turns.

    Args:
        folder: of the run; made if need be.
        resume: go on with the episodes that are there.

    Raises:
        ConfigError: there are episodes already and `resume` is not set.
        OutputError: the file can't be written, or another process is writing it.
    """

    def __init__(self, folder: Path, resume: bool = False) -> None:
        self.path = folder / EPISODES
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        except OSError as error:
            raise OutputError(f"can't write {self.path}: {error.strerror}") from error
        try:
            self._lock()
            if os.fstat(self._file).st_size and not resume:
                raise ConfigError(
                    f"{folder} holds a run: --resume (resume=True) goes on with it, or choose another --out"
                )
            found = read_episodes(self.path, on_torn=lambda offset: os.ftruncate(self._file, offset))
            self.found = [dataclasses.replace(episode, turns=()) for episode in found]
        except BaseException:
            self.close()
            raise

    def _lock(self) -> None:
        try:
            import fcntl
        except ImportError:  # Windows
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise OutputError(f"another process is writing {self.path}; wait for it or choose another --out") from None

    def append(self, episode: Episode) -> None:
        """Write one episode and wait until it is on disk.

        Raises:
            OutputError: it can't be written; the episodes before it are intact.
        """
        data = (episode.to_json() + "\n").encode()
        before = os.fstat(self._file).st_size
        try:
            written = os.write(self._file, data)
            while written < len(data):
                written += os.write(self._file, data[written:])
            os.fsync(self._file)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._file, before)
            raise OutputError(
                f"can't write {self.path}: {error.strerror}. The episodes before are intact; make room and go on with "
                "--resume (resume=True)"
            ) from error

    def close(self) -> None:
        """Close the file and let others write it."""
        os.close(self._file)


def write_results(folder: Path, results: dict[str, Any]) -> None:
    """Write ``results.json`` as a whole or not at all.

    Raises:
        OutputError: it can't be written; an earlier one is intact.
    """
    path, temporary = folder / RESULTS, folder / f".{RESULTS}.{os.getpid()}"
    try:
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(results, file, indent=2, ensure_ascii=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise OutputError(f"can't write {path}: {error.strerror}. {EPISODES} is intact; make room") from error
