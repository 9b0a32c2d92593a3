"""A maze: open cells and walls on a grid, one start, one goal. Positions are (row, column), from 0 at the top left."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

Cell = tuple[int, int]


class Direction(NamedTuple):
    """One of the four ways to go: `move` names it in an action, `side` in an observation."""

    move: str
    side: str
    row: int
    column: int


UP = Direction("up", "above", -1, 0)
DOWN = Direction("down", "below", 1, 0)
LEFT = Direction("left", "left", 0, -1)
RIGHT = Direction("right", "right", 0, 1)
DIRECTIONS = (UP, DOWN, LEFT, RIGHT)
_REPORTED = (RIGHT, LEFT, UP, DOWN)  # the order in which walls are reported, which is the reference's


@dataclass(frozen=True)
class Maze:
    """A solvable maze: every open cell is connected to the goal, and the outermost cells are walls.

    Attributes:
        kind: how it was made: ``perfect``, ``rooms``, ``open`` or ``double-t``.
        rows: one string for each row, ``#`` is a wall and ``.`` is open.
        start: where an episode begins.
        goal: where it ends.
    """

    kind: str
    rows: tuple[str, ...]
    start: Cell
    goal: Cell

    @cached_property
    def distances(self) -> dict[Cell, int]:
        """Moves on a shortest path to the goal, for every open cell."""
        return distances(self.rows, self.goal)

    @property
    def shortest(self) -> int:
        """Moves on a shortest path from start to goal."""
        return self.distances[self.start]

    @cached_property
    def walls(self) -> dict[Cell, tuple[str, ...]]:
        """The sides on which there is a wall, for every open cell."""
        return {
            (row, column): tuple(d.side for d in _REPORTED if self.rows[row + d.row][column + d.column] == "#")
            for row, column in self.distances
        }

    def shortest_path(self, cell: Cell) -> list[tuple[Direction, Cell]]:
        """Return the moves of a shortest path from `cell` to the goal, each with the cell that it leads to."""
        path = []
        while cell != self.goal:
            for direction in DIRECTIONS:
                after = (cell[0] + direction.row, cell[1] + direction.column)
                if self.distances.get(after, -1) == self.distances[cell] - 1:
                    break
            path.append((direction, after))
            cell = after
        return path


def distances(rows: tuple[str, ...], origin: Cell) -> dict[Cell, int]:
    """Return the number of moves from `origin` to each open cell that can be reached (breadth-first search)."""
    found = {origin: 0}
    queue = deque([origin])
    while queue:
        row, column = cell = queue.popleft()
        for _, _, down, right in DIRECTIONS:
            after = (row + down, column + right)
            if after not in found and rows[after[0]][after[1]] == ".":
                found[after] = found[cell] + 1
                queue.append(after)
    return found


def carve(height: int, width: int, cells: Iterable[Cell]) -> tuple[str, ...]:
    """Return the rows of a grid in which `cells` alone are open."""
    grid = [["#"] * width for _ in range(height)]
    for row, column in cells:
        grid[row][column] = "."
    return tuple(map("".join, grid))


def _line(start: Cell, step: Cell, length: int) -> list[Cell]:
    return [(start[0] + step[0] * i, start[1] + step[1] * i) for i in range(length)]


# The maze that LMRL-Gym calls "double T": two T's whose stems join at the top of a third.
_LEFT_BAR, _RIGHT_BAR = _line((1, 1), (0, 1), 5), _line((1, 7), (0, 1), 5)
_LEFT_STEM, _RIGHT_STEM = _line((2, 3), (1, 0), 3), _line((4, 9), (-1, 0), 3)
_WEST, _MIDDLE, _EAST = _line((5, 3), (0, 1), 3), _line((5, 6), (1, 0), 3), _line((5, 7), (0, 1), 3)

DOUBLE_T_STARTS: tuple[Cell, ...] = (
    *_LEFT_BAR,
    *_RIGHT_BAR,
    *_LEFT_STEM,
    *_WEST,
    *_MIDDLE,
    *_EAST,
    *_RIGHT_STEM,
)
"""The start of each of AgentGym's games, by game number. Its last game, which starts on the goal, can't be played."""
_DOUBLE_T_GOAL = (8, 6)
_DOUBLE_T = carve(10, 13, (*DOUBLE_T_STARTS, _DOUBLE_T_GOAL))


def double_t(game: int) -> Maze:
    """Return the fixed maze of the paper's data with the start of AgentGym's game number `game`."""
    return Maze("double-t", _DOUBLE_T, DOUBLE_T_STARTS[game], _DOUBLE_T_GOAL)
