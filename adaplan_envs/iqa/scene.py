"""Houses and questions: what a task consists of, and how it is made from its split and number alone.

Tasks come in groups that share one house, one question and one start. The members differ only in the class of the
objects at the key places (one, or three for counting), and every answer occurs once. So neither the question, nor the
number of objects, nor the look of the house says anything about the answer.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from adaplan_envs.core import stable_rng
from adaplan_envs.iqa.sight import STRIDE, around, cells

OBJECTS = {
    "apple": ("an apple", "apples"),
    "bowl": ("a bowl", "bowls"),
    "bread": ("a loaf of bread", "loaves of bread"),
    "cup": ("a cup", "cups"),
    "egg": ("an egg", "eggs"),
    "fork": ("a fork", "forks"),
    "knife": ("a knife", "knives"),
    "lettuce": ("a lettuce", "lettuces"),
    "mug": ("a mug", "mugs"),
    "plate": ("a plate", "plates"),
    "potato": ("a potato", "potatoes"),
    "spoon": ("a spoon", "spoons"),
    "tomato": ("a tomato", "tomatoes"),
}
"""Object class -> with its article, plural."""


@dataclass(frozen=True, slots=True)
class Furniture:
    """A receptacle class. Lengths are in cells, along the wall and away from it.

    Attributes:
        opens: it has a door or a front, and hides what is in it while closed.
        tall: it blocks sight.
        inside: objects are in it, not on it.
        at_most: how many of it a house may hold.
    """

    lengths: tuple[int, ...]
    depths: tuple[int, ...]
    opens: bool = False
    tall: bool = False
    inside: bool = False
    at_most: int = 3


FURNITURE = {
    "cabinet": Furniture((2, 3), (1, 2), opens=True, tall=True, inside=True),
    "counter": Furniture((3, 4), (2,), at_most=2),
    "drawer": Furniture((2,), (1,), opens=True, inside=True),
    "fridge": Furniture((2,), (2,), opens=True, tall=True, inside=True, at_most=1),
    "microwave": Furniture((2,), (1,), opens=True, inside=True, at_most=1),
    "sink": Furniture((2,), (2,), inside=True, at_most=1),
    "table": Furniture((2, 3, 4), (2, 3)),
}
OPENING = tuple(kind for kind, furniture in FURNITURE.items() if furniture.opens)
OPEN_TOPPED = tuple(kind for kind, furniture in FURNITURE.items() if not furniture.opens)
HOLDS = 3
"""How many objects a receptacle holds at most, so that each is as likely to hold the one asked about."""
ROOM = (7, 10)
"""Shortest and longest side of a room, in cells."""


@dataclass(frozen=True, slots=True)
class Place:
    """A receptacle: its class and its cells."""

    kind: str
    cells: int


@dataclass(frozen=True, slots=True)
class Item:
    """An object: its class, the number of its receptacle in `Scene.places`, and its cell (None in what opens)."""

    kind: str
    place: int
    cell: int | None


@dataclass(frozen=True, slots=True)
class Scene:
    """A house as it is: immutable, except that doors of receptacles open and close (`State.opened` in the env)."""

    rooms: int
    walls: int
    floor: int
    """All cells inside the walls, doorways included, furniture or not."""
    doorways: tuple[int, ...]
    places: tuple[Place, ...]
    items: tuple[Item, ...]
    start: int
    heading: int

    @property
    def solid(self) -> int:
        """Cells that nobody can walk into."""
        return self.walls | sum(place.cells for place in self.places)

    @property
    def opaque(self) -> int:
        """Cells that nobody can see through."""
        return self.walls | sum(place.cells for place in self.places if FURNITURE[place.kind].tall)


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked.

    Attributes:
        kind: ``existence``, ``counting`` or ``containment``.
        target: object class.
        place: receptacle class that the house holds once, for containment; else None.
    """

    kind: str
    target: str
    place: str | None = None

    @property
    def answers(self) -> tuple[str, ...]:
        """The possible answers, all equally likely."""
        return ("0", "1", "2", "3") if self.kind == "counting" else ("yes", "no")

    @property
    def text(self) -> str:
        """The question in words."""
        one, many = OBJECTS[self.target]
        if self.kind == "counting":
            return f"How many {many} are there in the house?"
        if self.place is None:
            return f"Is there {one} in the house?"
        return f"Is there {one} {'in' if FURNITURE[self.place].inside else 'on'} the {self.place}?"


@dataclass(frozen=True, slots=True)
class Problem:
    """A task's data: the house, the question, the right answer."""

    scene: Scene
    question: Question
    answer: str


_BLOCK = (("existence", 2), ("containment", 2), ("existence", 2), ("containment", 2), ("counting", 4))
"""Kinds and sizes of the groups that follow each other, over and over."""
_BLOCK_SIZE = sum(size for _, size in _BLOCK)


def make_problem(split: str, index: int) -> Problem:
    """Return task `index` of `split`: a pure function of both."""
    block, offset = divmod(index, _BLOCK_SIZE)
    group = block * len(_BLOCK)
    for kind, size in _BLOCK:  # noqa: B007 - both are used after the loop
        if offset < size:
            break
        offset -= size
        group += 1
    return _make_group(kind, 1 + group % 3, stable_rng("iqa", split, group), offset)


def _make_group(kind: str, rooms: int, rng: random.Random, member: int) -> Problem:
    unique: list[str] = []
    while not unique:  # a room of two tables and two drawers has nothing to ask "in the ..." about
        house = _Builder(rng, rooms)
        kinds = [place.kind for place in house.places]
        unique = [name for name in FURNITURE if kinds.count(name) == 1]
    target = rng.choice(list(OBJECTS))
    others = [name for name in OBJECTS if name != target]
    spots = house.spots()
    rng.shuffle(spots)
    asked: str | None = None
    if kind == "containment":
        asked = rng.choice(unique)
        # The key place first; the class asked for may be anywhere else.
        spots.sort(key=lambda spot: kinds[spot[0]] != asked)
    keys = 3 if kind == "counting" else 1
    hits = {"counting": [0, 1, 2, 3]}.get(kind, [1, 0])
    rng.shuffle(hits)
    items = []
    for number, (place, cell) in enumerate(spots[: keys + rng.randint(2, 3) * house.rooms]):
        filler = rng.choice(others)
        if number < keys:
            items.append(Item(target if number < hits[member] else filler, place, cell))
        elif asked is not None and house.places[place].kind != asked and rng.random() < 0.2:
            items.append(Item(target, place, cell))
        else:
            items.append(Item(filler, place, cell))
    start = rng.choice(list(cells(house.free)))
    heading = rng.randrange(4)
    # Things are reported in this order where all else is equal; it must not tell key places from others.
    items.sort(key=lambda item: (item.place, -1 if item.cell is None else item.cell, item.kind))
    scene = Scene(
        house.rooms, house.walls, house.floor, tuple(house.doorways), tuple(house.places), tuple(items), start, heading
    )
    answer = str(hits[member]) if kind == "counting" else "yes" if hits[member] else "no"
    return Problem(scene, Question(kind, target, asked), answer)


class _Builder:
    """Rooms in a row, walls and doorways between them, and furniture that never cuts the free floor in two.

    Receptacles stand at a wall or free, and keep a free cell to each other and two to a doorway. So every free cell
    can be reached, every receptacle has free cells at its front, and all that stands on one can be seen from there.
    """

    def __init__(self, rng: random.Random, rooms: int) -> None:
        self.rooms = rooms
        self.walls = self.floor = 0
        self.doorways: list[int] = []
        self.places: list[Place] = []
        self._rng = rng
        self._taken = 0
        self._kept_clear = 0
        across = rng.random() < 0.5
        # The row runs west to east, or north to south with x and y exchanged.
        self._at: Callable[[int, int], int] = (lambda x, y: x * STRIDE + y) if across else (lambda x, y: y * STRIDE + x)
        height = rng.randint(*ROOM)
        spans = []
        x = 0
        for _ in range(rooms):
            width = rng.randint(*ROOM)
            spans.append((x + 1, width))
            self.floor |= self._box(x + 1, 1, width, height)
            x += width + 1
        self.walls = self._box(0, 0, x + 1, height + 2) & ~self.floor
        for left, _ in spans[1:]:
            y = rng.randint(1, height - 1)
            self.doorways.append(self._box(left - 1, y, 1, 2))
            self.walls &= ~self.doorways[-1]
            self.floor |= self.doorways[-1]
            self._kept_clear |= self._box(left - 3, y, 5, 2)
        for left, width in spans:
            for kind in self._wanted():
                self._furnish(kind, left, width, height)

    @property
    def free(self) -> int:
        """Cells that one can stand on."""
        return self.floor & ~self._taken

    def spots(self) -> list[tuple[int, int | None]]:
        """Return where objects can be: pairs of a receptacle's number and a cell, None in what opens."""
        found: list[tuple[int, int | None]] = []
        for number, place in enumerate(self.places):
            if FURNITURE[place.kind].opens:
                found += [(number, None)] * HOLDS
            else:
                found += [(number, cell) for cell in self._rng.sample(list(cells(place.cells)), HOLDS)]
        return found

    def _box(self, x: int, y: int, width: int, height: int) -> int:
        return sum(1 << self._at(i, j) for i in range(x, x + width) for j in range(y, y + height))

    def _wanted(self) -> list[str]:
        """Draw the furniture of one room: one or two that open, one or two that do not, in the order of placing."""
        return [self._rng.choice(kinds) for kinds in (OPENING, OPEN_TOPPED) for _ in range(self._rng.randint(1, 2))]

    def _furnish(self, kind: str, left: int, width: int, height: int) -> None:
        """Put a receptacle where it fits; leave it out if the room is full or the house has enough of it."""
        furniture = FURNITURE[kind]
        if sum(place.kind == kind for place in self.places) >= furniture.at_most:
            return
        rng = self._rng
        for _ in range(20):
            long, deep = rng.choice(furniture.lengths), rng.choice(furniture.depths)
            side = rng.randrange(4)
            w, h = (long, deep) if side % 2 == 0 else (deep, long)
            if kind == "table":
                x, y = rng.randint(1, width - w - 1), rng.randint(1, height - h - 1)
            elif side % 2 == 0:
                x, y = rng.randint(0, width - w), 0 if side == 0 else height - h
            else:
                x, y = 0 if side == 3 else width - w, rng.randint(0, height - h)
            box = self._box(left + x, 1 + y, w, h)
            if not around(box) & self._taken and not box & self._kept_clear:
                self._taken |= box
                self.places.append(Place(kind, box))
                return
