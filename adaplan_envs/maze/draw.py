"""A maze as text and as a picture."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adaplan_envs.maze.grid import Cell, Maze

_CELL = 32  # pixels a side
_WALL, _FLOOR, _LINE = (52, 62, 80), (247, 245, 240), (228, 224, 214)
_PLAYER, _GOAL, _TRAIL, _START = (222, 94, 52), (46, 150, 106), (240, 178, 148), (150, 160, 178)


def as_text(maze: Maze, visited: list[Cell]) -> str:
    """Return the maze with the player ``@``, the goal ``G`` and the visited cells ``·``, two columns for a cell."""
    marks = dict.fromkeys(visited, "· ") | {maze.goal: "G "} | {visited[-1]: "@ "}
    return "\n".join(
        "".join("██" if mark == "#" else marks.get((r, c), "  ") for c, mark in enumerate(row))
        for r, row in enumerate(maze.rows)
    )


def as_picture(maze: Maze, visited: list[Cell]) -> NDArray[np.uint8]:
    """Return the maze as uint8 [rows * 32, columns * 32, 3]: start, trail, goal (a ring) and player (a disc)."""
    wall = np.array([[mark == "#" for mark in row] for row in maze.rows]).repeat(_CELL, 0).repeat(_CELL, 1)
    picture: NDArray[Any] = np.where(wall[..., None], _WALL, _FLOOR).astype(np.float64)
    edge = np.zeros(wall.shape, bool)
    edge[::_CELL] = edge[:, ::_CELL] = True
    picture[edge & ~wall] = _LINE
    _ring(picture, maze.start, _START, 11, 8)
    for before, after in pairwise(visited):
        _bar(picture, before, after)
    _ring(picture, maze.goal, _GOAL, 12, 7)
    _ring(picture, maze.goal, _GOAL, 4)
    _ring(picture, visited[-1], _PLAYER, 10)
    return picture.round().astype(np.uint8)


def _ring(picture: NDArray[Any], cell: Cell, colour: tuple[int, ...], outer: float, inner: float = -1) -> None:
    """Paint a ring (a disc without `inner`) into a cell, its rim smoothed over one pixel."""
    axis = np.arange(_CELL) - (_CELL - 1) / 2
    radius = np.hypot(axis[:, None], axis)
    cover = np.clip(outer - radius + 0.5, 0, 1) * np.clip(radius - inner + 0.5, 0, 1)
    box = picture[cell[0] * _CELL : (cell[0] + 1) * _CELL, cell[1] * _CELL : (cell[1] + 1) * _CELL]
    box += (np.array(colour) - box) * cover[..., None]


def _bar(picture: NDArray[Any], one: Cell, other: Cell) -> None:
    """Paint the trail between the middles of two neighbouring cells."""
    (top, left), (bottom, right) = sorted((one, other))
    middle, half = _CELL // 2, 3
    rows = slice(top * _CELL + middle - half, bottom * _CELL + middle + half)
    picture[rows, left * _CELL + middle - half : right * _CELL + middle + half] = _TRAIL
