"""The expert of MAZE: a shortest path from wherever the player is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adaplan_envs.errors import NoPlanError

if TYPE_CHECKING:
    from adaplan_envs.maze.env import MazeEnv


class MazeExpert:
    """Walks a shortest path. Of several it prefers up, then down, left, right."""

    def __init__(self, env: MazeEnv) -> None:
        self._env = env

    def plan(self) -> list[str]:
        """Return the remaining moves in words; none at the goal. Every cell is connected to the goal."""
        path = self._env.maze.shortest_path(self._env.position)
        return [f"Move {direction.move} to {row}, {column}." for direction, (row, column) in path]

    def action(self) -> str:
        """Return the next move.

        Raises:
            NoPlanError: already at the goal.
        """
        path = self._env.maze.shortest_path(self._env.position)
        if not path:
            raise NoPlanError("already at the goal: nothing is left to do")
        return f"move {path[0][0].move}"
