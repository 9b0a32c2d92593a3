"""The table of environments: ids, where they are, what they need."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

import gymnasium

from adaplan_envs.errors import UnknownNameError

NAMESPACE = "AdaPlan"


@dataclass(frozen=True, slots=True)
class Entry:
    """One environment of the suite.

    Attributes:
        id: Gymnasium id.
        entry_point: ``module:class``.
        extra: the optional dependency group that it needs, or None.
        needs: top-level modules of that group, to see without importing whether it is installed.
    """

    id: str
    entry_point: str
    extra: str | None = None
    needs: tuple[str, ...] = ()

    @property
    def short_name(self) -> str:
        """The name for people, ``maze`` for ``AdaPlan/Maze-v0``: also the first part of its task ids."""
        return self.id.partition("/")[2].rpartition("-v")[0].lower()

    @property
    def installed(self) -> bool:
        """Whether the packages that it needs are there."""
        return all(find_spec(module) is not None for module in self.needs)


SUITE: tuple[Entry, ...] = (
    Entry(f"{NAMESPACE}/ALFWorld-v0", "adaplan_envs.alfworld.env:ALFWorldEnv", "alfworld", ("alfworld", "textworld")),
    Entry(f"{NAMESPACE}/BabyAI-v0", "adaplan_envs.babyai.env:BabyAIEnv", "babyai", ("minigrid",)),
    Entry(f"{NAMESPACE}/TextCraft-v0", "adaplan_envs.textcraft.env:TextCraftEnv"),
    Entry(f"{NAMESPACE}/Wordle-v0", "adaplan_envs.wordle.env:WordleEnv"),
    Entry(f"{NAMESPACE}/Maze-v0", "adaplan_envs.maze.env:MazeEnv"),
    Entry(f"{NAMESPACE}/IQA-v0", "adaplan_envs.iqa.env:IQAEnv"),
)

SIMULATED = Entry(f"{NAMESPACE}/Simulated-v0", "adaplan_envs.simulated.described:DescribedEnv")
"""What a user describes in a file; no member of the suite, for it has no tasks of its own."""


def register() -> None:
    """Put the suite into Gymnasium's registry. ``import adaplan_envs`` calls it; calling it again does nothing."""
    for entry in (*SUITE, SIMULATED):
        if entry.id not in gymnasium.registry:
            name = entry.id.partition("/")[2].replace("-", "_")
            gymnasium.register(
                id=entry.id,
                entry_point=entry.entry_point if entry is SIMULATED else f"adaplan_envs.backends:{name}",
                vector_entry_point=f"adaplan_envs.vector:{name}",
                # TextEnv checks order and types itself, at a hundredth of the wrappers' cost.
                disable_env_checker=True,
                order_enforce=False,
            )


def resolve_id(name: str) -> str:
    """Return the Gymnasium id that `name` means: ``maze``, ``Maze-v0`` and ``AdaPlan/Maze-v0`` are the same.

    Case does not matter. Any other id that is registered with Gymnasium is returned as it is, so that an environment
    of a user's own can be named too.

    Raises:
        UnknownNameError: no environment has this name; the message lists the nearest.
    """
    wanted = name.strip().removeprefix("adaplan_envs:")
    for entry in (*SUITE, SIMULATED):
        if wanted.lower() in (entry.short_name, entry.id.partition("/")[2].lower(), entry.id.lower()):
            return entry.id
    if wanted in gymnasium.registry:
        return wanted
    raise UnknownNameError("environment", name, [entry.short_name for entry in SUITE])


def installed_ids() -> list[str]:
    """Return the ids of the suite whose packages are installed, in the order of the table."""
    return [entry.id for entry in SUITE if entry.installed]
