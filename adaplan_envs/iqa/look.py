"""Views of a house: what a pose shows, worked out once for each pose."""

from __future__ import annotations

from typing import NamedTuple

from adaplan_envs.iqa.scene import FURNITURE, Scene
from adaplan_envs.iqa.sight import AHEAD, Bearing, Sight

WALL = -1


class Glimpse(NamedTuple):
    """A thing in view. Things are numbered through: receptacles, doorways, objects."""

    bearing: Bearing
    thing: int


class View(NamedTuple):
    """What a pose shows whatever is open: cells, receptacles and doorways, objects on receptacles.

    Attributes:
        cells: bits of the cells in view.
        fixed: receptacles and doorways, each by its nearest cell in view.
        items: objects in the open.
        clear: free cells straight ahead, as far as one can see.
        blocked_by: what comes after them: number of a receptacle, `WALL`, or None (out of sight).
    """

    cells: int
    fixed: tuple[Glimpse, ...]
    items: tuple[Glimpse, ...]
    clear: int
    blocked_by: int | None

    def distance_to(self, thing: int) -> float | None:
        """Return how far a receptacle is, in metres, or None where it is not in view."""
        return next((glimpse.bearing.distance for glimpse in self.fixed if glimpse.thing == thing), None)


class House:
    """A scene, its derived maps, and the views of it so far."""

    def __init__(self, scene: Scene, sight: Sight) -> None:
        self.scene = scene
        self.sight = sight
        self.solid = scene.solid
        self.opaque = scene.opaque
        self.first_doorway = len(scene.places)
        self.first_item = self.first_doorway + len(scene.doorways)
        self.contents: dict[int, list[int]] = {}
        """Receptacle that opens -> the things in it."""
        for number, item in enumerate(scene.items):
            if FURNITURE[scene.places[item.place].kind].opens:
                self.contents.setdefault(item.place, []).append(self.first_item + number)
        self._views: dict[tuple[int, int], View] = {}

    def view(self, cell: int, heading: int) -> View:
        """Return what is seen from a pose."""
        pose = cell, heading
        if pose not in self._views:
            self._views[pose] = self._look(cell, heading)
        return self._views[pose]

    def kind(self, thing: int) -> str:
        """Return the class of a thing."""
        if thing < self.first_doorway:
            return self.scene.places[thing].kind
        return "doorway" if thing < self.first_item else self.scene.items[thing - self.first_item].kind

    def _look(self, cell: int, heading: int) -> View:
        scene, sight = self.scene, self.sight
        seen = sight.visible(self.opaque, cell, heading)
        others = seen & ~(1 << cell)
        fixed = [
            Glimpse(sight.nearest(part, cell, heading), thing)
            for thing, whole in enumerate([*(place.cells for place in scene.places), *scene.doorways])
            if (part := whole & others)
        ]
        items = [
            Glimpse(sight.nearest(1 << item.cell, cell, heading), self.first_item + number)
            for number, item in enumerate(scene.items)
            if item.cell is not None and seen >> item.cell & 1
        ]
        clear, at = 0, cell + AHEAD[heading]
        while clear < sight.reach and not self.solid >> at & 1:
            clear, at = clear + 1, at + AHEAD[heading]
        blocked_by: int | None = None
        if clear < sight.reach:
            hit = (number for number, place in enumerate(scene.places) if place.cells >> at & 1)
            blocked_by = next(hit, WALL)
        return View(seen, tuple(sorted(fixed)), tuple(sorted(items)), clear, blocked_by)
