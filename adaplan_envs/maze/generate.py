"""Generated mazes: each is a function of its split and index, and nothing is stored.

No layout is in both ``train`` and ``test``: a layout belongs to one of them by a bit of its own hash, and the
generator draws until it has one that belongs where it is wanted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache
from random import Random

from adaplan_envs.core import stable_rng
from adaplan_envs.maze.grid import DIRECTIONS, Cell, Maze, carve, distances

SHORTEST, LONGEST = 4, 40
"""Bounds of the shortest path of a task, in moves."""


def _perfect(rng: Random) -> tuple[str, ...]:
    """Corridors without loops: one path between any two cells (depth-first search on every second cell)."""
    height, width = rng.choice((7, 9, 11, 13)), rng.choice((7, 9, 11, 13))
    cells = {(rng.randrange(1, height, 2), rng.randrange(1, width, 2))}
    trail = list(cells)
    while trail:
        row, column = trail[-1]
        ahead = [
            (d, (row + 2 * d.row, column + 2 * d.column))
            for d in DIRECTIONS
            if 0 < row + 2 * d.row < height and 0 < column + 2 * d.column < width
        ]
        ahead = [(d, cell) for d, cell in ahead if cell not in cells]
        if not ahead:
            trail.pop()
            continue
        direction, cell = rng.choice(ahead)
        cells |= {cell, (row + direction.row, column + direction.column)}
        trail.append(cell)
    return carve(height, width, cells)


def _rooms(rng: Random) -> tuple[str, ...]:
    """Rooms of 3 to 5 cells a side with one or two doors between neighbours (recursive division)."""
    height, width = rng.choice((9, 11, 13)), rng.choice((9, 11, 13))
    grid = [list(row) for row in carve(height, width, _inside(height, width))]
    areas = [(1, 1, height - 2, width - 2)]
    while areas:
        top, left, bottom, right = areas.pop()
        # Walls stand on even lines and doors on odd ones, so that no later wall can end in front of a door.
        wide = right - left >= bottom - top
        lines = range(left + 3, right - 2, 2) if wide else range(top + 3, bottom - 2, 2)
        if not lines:
            continue
        line = rng.choice(lines)
        along = range(top, bottom + 1) if wide else range(left, right + 1)
        doors = {rng.choice(along[::2]) for _ in range(rng.choice((1, 2)))}
        for place in along:
            if place not in doors:
                grid[place if wide else line][line if wide else place] = "#"
        areas.append((top, left, bottom, line - 1) if wide else (top, left, line - 1, right))
        areas.append((top, line + 1, bottom, right) if wide else (line + 1, left, bottom, right))
    return tuple(map("".join, grid))


def _open(rng: Random) -> tuple[str, ...]:
    """An open field with obstacles on 15 to 40 % of its cells; what they cut off is walled in."""
    height, width = rng.randint(7, 13), rng.randint(7, 13)
    inside = _inside(height, width)
    free = rng.sample(inside, round(len(inside) * rng.uniform(0.6, 0.85)))
    return carve(height, width, distances(carve(height, width, free), free[0]))


def _inside(height: int, width: int) -> list[Cell]:
    return [(row, column) for row in range(1, height - 1) for column in range(1, width - 1)]


KINDS: dict[str, Callable[[Random], tuple[str, ...]]] = {"perfect": _perfect, "rooms": _rooms, "open": _open}


@lru_cache(maxsize=4096)  # the size of train and test together, and some
def generate(split: str, index: int) -> Maze:
    """Return maze `index` of ``train`` or ``test``; kinds take turns.

    The shortest path has a length drawn evenly from `SHORTEST` to `LONGEST` or to the longest that the layout has.
    """
    rng = stable_rng("maze", split, index)
    kind = list(KINDS)[index % len(KINDS)]
    while True:
        rows = KINDS[kind](rng)
        if hashlib.sha256("\n".join(rows).encode()).digest()[0] % 2 != (split == "test"):
            continue
        goal = rng.choice([(r, c) for r, row in enumerate(rows) for c, mark in enumerate(row) if mark == "."])
        away = distances(rows, goal)
        farthest = min(LONGEST, max(away.values()))
        if farthest >= SHORTEST:
            length = rng.randint(SHORTEST, farthest)
            start = rng.choice([cell for cell, distance in away.items() if distance == length])
            return Maze(kind, rows, start, goal)
