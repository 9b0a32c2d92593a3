"""A walker who remembers where it has been."""

from __future__ import annotations

import random

from adaplan_envs.maze.env import MazeEnv
from adaplan_envs.maze.grid import DIRECTIONS, Cell, Direction


class LeastVisited:
    """Goes to the neighbouring cell in which it has been least often.

    Of several rather not to the one it came from, then to the one nearest to the goal. It knows the walls around it,
    its position and the goal's, and remembers where it has been.
    """

    def __init__(self, env: MazeEnv, rng: random.Random) -> None:
        self._env = env
        self._visits: dict[Cell, int] = {}
        self._here: Cell | None = None

    def action(self) -> str:
        """Return the next move."""
        before, here, goal = self._here, self._env.position, self._env.maze.goal
        self._here = here
        self._visits[here] = self._visits.get(here, 0) + 1
        walls = self._env.maze.walls[here]

        def cost(direction: Direction) -> tuple[int, bool, int]:
            row, column = there = here[0] + direction.row, here[1] + direction.column
            return self._visits.get(there, 0), there == before, abs(row - goal[0]) + abs(column - goal[1])

        best = min((direction for direction in DIRECTIONS if direction.side not in walls), key=cost)
        return f"move {best.move}"
