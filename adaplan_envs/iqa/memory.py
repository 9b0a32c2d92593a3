"""What has been seen in an episode: all that the expert knows, and all that an agent could know."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple


class SeenPlace(NamedTuple):
    """A receptacle that has been seen: its class, its cells seen so far, and whether it was seen open."""

    kind: str
    cells: int
    looked_into: bool


class SeenItem(NamedTuple):
    """An object that has been seen: its class and the name of the receptacle that it is on or in."""

    kind: str
    place: str


@dataclass(slots=True)
class Memory:
    """The map and the finds so far. Sets of cells are bits, see `adaplan_envs.iqa.sight`.

    Attributes:
        seen: cells that have been seen.
        solid: those of them that can't be walked into.
        opaque: those of them that can't be seen through.
        places: receptacles by name (``drawer 2``), numbered within their class in the order of first sight.
        items: objects by name, numbered likewise.
    """

    seen: int = 0
    solid: int = 0
    opaque: int = 0
    places: dict[str, SeenPlace] = field(default_factory=dict)
    items: dict[str, SeenItem] = field(default_factory=dict)

    def copy(self) -> Memory:
        """Return an independent copy."""
        return replace(self, places=dict(self.places), items=dict(self.items))


@dataclass(slots=True)
class State:
    """An episode: where the agent stands, what is open, what has been seen.

    Attributes:
        cell: number of the agent's cell.
        heading: index into `sight.HEADINGS`.
        opened: bits of the receptacles (by their number in `Scene.places`) that are open.
        names: number of a thing (see `look.Glimpse`) -> its name, for those that have been seen.
        memory: what has been seen.
        answer: the answer given, which ends the episode.
    """

    cell: int
    heading: int
    opened: int = 0
    names: dict[int, str] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    answer: str | None = None

    def copy(self) -> State:
        """Return an independent copy."""
        return replace(self, names=dict(self.names), memory=self.memory.copy())
