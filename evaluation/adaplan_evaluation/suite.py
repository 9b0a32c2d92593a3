"""What a run plays: which environments, which tasks, how often."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from typing import Any

import gymnasium

from adaplan_envs.core import TextEnv, stable_rng
from adaplan_envs.errors import ConfigError
from adaplan_envs.registration import installed_ids, resolve_id
from adaplan_envs.types import Task

IN_DOMAIN = ("AdaPlan/ALFWorld-v0", "AdaPlan/IQA-v0", "AdaPlan/TextCraft-v0", "AdaPlan/Wordle-v0")
"""The environments that the paper trains on (Table 1)."""
OUT_OF_DOMAIN = ("AdaPlan/BabyAI-v0", "AdaPlan/Maze-v0")
"""Those that it keeps for testing alone."""


def resolve_envs(envs: str | Iterable[str]) -> list[str]:
    """Return Gymnasium ids: of ``all`` that are installed, or of names such as ``maze`` or ``maze,wordle``.

    Raises:
        ConfigError: no environment has this name, or there is none at all.
    """
    names = envs.split(",") if isinstance(envs, str) else list(envs)
    names = [name.strip() for name in names if name.strip()]
    ids = installed_ids() if names == ["all"] else list(dict.fromkeys(map(resolve_id, names)))
    if not ids:
        raise ConfigError("no environment to play; name some, such as maze,wordle, or say all")
    return ids


def choose_tasks(env: TextEnv, split: str, episodes: int | None, max_difficulty: int | None = None) -> list[str]:
    """Return the ids of `episodes` tasks of `split`, in their order; all of them for None.

    The choice is spread over the whole split and depends on nothing else: every run of 50 plays the same 50, and they
    are among those of every run of 100. With `max_difficulty`, harder tasks are not there.

    Raises:
        ConfigError: every task is harder.
    """
    ids = env.task_ids(split)
    if max_difficulty is not None:
        levels = {each: env.task(each).difficulty for each in ids}
        ids = [each for each in ids if levels[each] <= max_difficulty]
        if not ids:
            raise ConfigError(
                f"no task of {env.name}/{split} has a difficulty of {max_difficulty} or less; "
                f"they have {min(levels.values())} to {max(levels.values())}"
            )
    if episodes is None or episodes >= len(ids):
        return ids
    order = list(range(len(ids)))
    stable_rng("choose tasks", env.name, split).shuffle(order)
    return [ids[index] for index in sorted(order[:episodes])]


def fingerprint(tasks: Mapping[str, Sequence[Task]]) -> str:
    """Return a SHA-256 of tasks by environment id: equal exactly when ids, goals and data of all are equal."""
    digest = hashlib.sha256()
    for env_id in sorted(tasks):
        for task in sorted(tasks[env_id], key=lambda task: task.id):
            digest.update(f"{env_id}\x1f{task.id}\x1f{task.goal}\x1f{_canonical(task.data)}\x1e".encode())
    return digest.hexdigest()


def _canonical(value: Any) -> str:
    # repr() of a set depends on the hash seed, that of an object on its address.
    if isinstance(value, Mapping):
        return "{" + ",".join(sorted(f"{_canonical(key)}:{_canonical(item)}" for key, item in value.items())) + "}"
    if isinstance(value, (set, frozenset)):
        return "{" + ",".join(sorted(map(_canonical, value))) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_canonical, value)) + "]"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__ + _canonical([getattr(value, each.name) for each in dataclasses.fields(value)])
    if isinstance(value, Enum):
        return _canonical(value.value)
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return repr(value)
    return type(value).__name__


def env_keywords(settings: Mapping[str, Any] | None, *, split: str, max_steps: int | None = None) -> dict[str, Any]:
    """Return the keywords of a run's environments.

    Args:
        settings: that the user gave; a ``max_steps`` among them counts where the run has none of its own.
        split: of the run.
        max_steps: of the run; None leaves it to `settings`, and then to each environment.

    Raises:
        ConfigError: `settings` contradict the run.
    """
    settings = dict(settings or {})
    for name, own in (("split", split), ("max_steps", max_steps)):
        if own is not None and settings.get(name, own) != own:
            raise ConfigError(
                f"{name} is {own!r}, but {settings[name]!r} among the environments' settings: give it once"
            )
    limit = settings.get("max_steps") if max_steps is None else max_steps
    return {**settings, "split": split, "max_steps": limit}


class EnvPool:
    """Environments for many episodes at once, each used by one episode at a time and then used again."""

    def __init__(self, **env_kwargs: Any) -> None:
        self.env_kwargs = env_kwargs
        self._free: dict[str, list[gymnasium.Env[str, str]]] = {}

    def take(self, env_id: str) -> gymnasium.Env[str, str]:
        """Return an environment that nobody uses, a new one if need be.

        Raises:
            ConfigError: it does not accept the keywords of this pool, or is not a text environment.
        """
        free = self._free.setdefault(env_id, [])
        if free:
            return free.pop()
        try:
            env = gymnasium.make(env_id, **self.env_kwargs)
        except TypeError as error:
            raise ConfigError(f"{env_id} does not accept these options: {error}") from error
        if not isinstance(env.unwrapped, TextEnv):
            env.close()
            raise ConfigError(f"{env_id} is not a text environment (a subclass of adaplan_envs.TextEnv)")
        return env

    def give(self, env_id: str, env: gymnasium.Env[str, str], broken: bool = False) -> None:
        """Hand an environment back; a broken one is closed instead of used again."""
        if not broken:
            self._free[env_id].append(env)
        elif not env.unwrapped.blocking:  # type: ignore[attr-defined]  # a blocking one may still run in its thread
            with suppress(Exception):
                env.close()

    def close(self) -> None:
        """Close all environments that are not in use."""
        for envs in self._free.values():
            while envs:
                envs.pop().close()
