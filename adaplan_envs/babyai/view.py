"""What the agent sees: minigrid's field of view, as objects rather than as an image."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

STEPS = ((1, 0), (0, 1), (-1, 0), (0, -1))
"""One step in each of minigrid's directions: right, down, left, up."""


class Cell(NamedTuple):
    """One cell in sight."""

    thing: Any
    """minigrid's object, or None."""
    x: int
    y: int
    ahead: int
    """Steps ahead of the agent, from 0."""
    right: int
    """Steps to its right; negative to its left."""


@cache
def _offsets(size: int, direction: int) -> tuple[tuple[int, int, int, int], ...]:
    """Return (dx, dy, ahead, right) of each cell of the view, row by row from the farthest, left to right."""
    (fx, fy), (rx, ry) = STEPS[direction], STEPS[(direction + 1) % 4]
    return tuple(
        (fx * ahead + rx * right, fy * ahead + ry * right, ahead, right)
        for ahead in range(size - 1, -1, -1)
        for right in range(-(size // 2), size // 2 + 1)
    )


def look(level: Any) -> list[Cell]:
    """Return the visible cells, row by row from the farthest, each row from left to right.

    The same cells as minigrid's ``gen_obs_grid``: light spreads from the agent sideways and ahead, row by row, and
    stops at walls and closed doors.
    """
    size: int = level.agent_view_size
    grid, width, height = level.grid.grid, level.width, level.height
    x0, y0 = int(level.agent_pos[0]), int(level.agent_pos[1])
    offsets = _offsets(size, int(level.agent_dir))
    lit = [False] * (size * size)
    lit[(size - 1) * size + size // 2] = True
    things: list[Any] = [None] * (size * size)
    clear = [False] * (size * size)
    for at, (dx, dy, _, _) in enumerate(offsets):
        x, y = x0 + dx, y0 + dy
        if 0 <= x < width and 0 <= y < height:
            thing = things[at] = grid[y * width + x]
            clear[at] = thing is None or thing.see_behind()
    for row in range((size - 1) * size, -1, -size):
        for first, last, step in ((row, row + size - 1, 1), (row + size - 1, row, -1)):
            for at in range(first, last, step):
                if lit[at] and clear[at]:
                    lit[at + step] = True
                    if row:
                        lit[at + step - size] = lit[at - size] = True
    return [
        Cell(things[at], x0 + dx, y0 + dy, ahead, right) for at, (dx, dy, ahead, right) in enumerate(offsets) if lit[at]
    ]


def kind(thing: Any) -> str:
    """Return colour and type, such as ``red ball``."""
    return f"{thing.color} {thing.type}"


def door_state(door: Any) -> str:
    """Return ``open``, ``closed`` or ``locked``."""
    return "open" if door.is_open else "locked" if door.is_locked else "closed"


def where(ahead: int, right: int) -> str:
    """Return a position in words, such as ``3 ahead, 1 left``."""
    side = f"{abs(right)} {'right' if right > 0 else 'left'}" if right else ""
    return ", ".join(filter(None, (f"{ahead} ahead" if ahead else "", side)))


class Sight(NamedTuple):
    """A visible object."""

    name: str
    """Colour and type; a door's state stands between them."""
    number: int
    ahead: int
    right: int


def describe(visible: list[Sight], facing: tuple[str, int] | None, carrying: str | None) -> str:
    """Return what is seen, what blocks the way ahead and what is carried, a line each."""
    seen = "; ".join(f"{sight.name} {sight.number} ({where(sight.ahead, sight.right)})" for sight in visible)
    ahead = f"{facing[0]}, {facing[1]} step{'s' * (facing[1] > 1)} away" if facing else "free as far as you see"
    return f"In sight: {seen or 'no objects'}.\nAhead: {ahead}.\nIn hand: {carrying or 'nothing'}."
