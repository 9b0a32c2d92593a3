"""Shortest ways for the commands that walk."""

from __future__ import annotations

from collections import deque

from adaplan_envs.babyai.levels import FORWARD, LEFT, RIGHT
from adaplan_envs.babyai.view import STEPS

Pose = tuple[int, int, int]
"""x, y, direction."""


class Routes:
    """The shortest ways from `start` to wherever they lead, in turns and steps, by breadth-first search.

    Args:
        start: x, y and direction.
        walkable: for each cell, row by row, whether one can step on it.
        width: cells in a row.
    """

    def __init__(self, start: Pose, walkable: list[bool], width: int) -> None:
        self.start = start
        self._parents: dict[Pose, tuple[Pose, int] | None] = {self.start: None}
        self._facing: dict[tuple[int, int], Pose] = {}
        self._on: dict[tuple[int, int], Pose] = {}
        queue = deque([self.start])
        while queue:
            pose = queue.popleft()
            x, y, direction = pose
            dx, dy = STEPS[direction]
            ahead = (x + dx, y + dy)
            self._facing.setdefault(ahead, pose)
            self._on.setdefault((x, y), pose)
            after = (*ahead, direction)
            # The outermost cells are walls, so a step never leaves the grid.
            if walkable[ahead[1] * width + ahead[0]] and after not in self._parents:
                self._parents[after] = (pose, FORWARD)
                queue.append(after)
            for move, turned in ((LEFT, (direction - 1) % 4), (RIGHT, (direction + 1) % 4)):
                after = (x, y, turned)
                if after not in self._parents:
                    self._parents[after] = (pose, move)
                    queue.append(after)

    def to(self, x: int, y: int, arrive: bool) -> list[int] | None:
        """Return the minigrid actions that end on the cell (`arrive`) or in front of it, or None."""
        pose = (self._on if arrive else self._facing).get((x, y))
        if pose is None:
            return None
        moves: list[int] = []
        while (parent := self._parents[pose]) is not None:
            pose, move = parent
            moves.append(move)
        return moves[::-1]

    def poses(self, x: int, y: int, arrive: bool) -> list[Pose] | None:
        """Return the poses of that way, from the start on."""
        pose: Pose | None = (self._on if arrive else self._facing).get((x, y))
        if pose is None:
            return None
        way = [pose]
        while (parent := self._parents[way[-1]]) is not None:
            way.append(parent[0])
        return way[::-1]
