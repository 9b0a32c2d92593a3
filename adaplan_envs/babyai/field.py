"""The grid as the solver sees it: all of it, with what it costs to get anywhere."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from adaplan_envs.babyai.view import STEPS

Spot = tuple[int, int]
"""x, y."""
Pose = tuple[int, int, int]
"""x, y, direction."""

# What an obstacle adds to the cost of a way, in moves: roughly what it takes to remove it.
_CLOSED, _LOCKED, _BLOCKED = 1, 40, 8


class Stuck(Exception):
    """The solver knows no way on."""


class Field:
    """A level, and what must be left alone in it.

    Attributes:
        level: minigrid's.
        barred: doors that must not be relied on, because their key is being fetched.
        may_toggle: whether doors on the way may be opened; a strict mission fails if the wrong one is.
        may_move: whether objects in the way may be carried off; likewise.
    """

    def __init__(self, level: Any) -> None:
        self.level = level
        self.barred: list[Any] = []
        self.may_toggle = self.may_move = True

    # -- searching ----------------------------------------------------------------------------------------------

    def route(self, spots: set[Spot]) -> list[Pose] | None:
        """Return the cheapest way, obstacles weighed, to look at one of `spots` from beside it, or None."""
        start = self.pose()
        best: dict[Pose, int] = {start: 0}
        parents: dict[Pose, Pose] = {}
        queue = [(0, start)]
        while queue:
            cost, pose = heapq.heappop(queue)
            if cost > best[pose]:
                continue
            ahead = self.spot_ahead(pose)
            if ahead in spots:
                way = [pose]
                while way[-1] in parents:
                    way.append(parents[way[-1]])
                return way[::-1]
            x, y, direction = pose
            after = [(1, (x, y, (direction - 1) % 4)), (1, (x, y, (direction + 1) % 4))]
            extra = self.price(self.level.grid.get(*ahead))
            if extra is not None:
                after.append((1 + extra, (*ahead, direction)))
            for step, turned in after:
                if cost + step < best.get(turned, 10**9):
                    best[turned] = cost + step
                    parents[turned] = pose
                    heapq.heappush(queue, (cost + step, turned))
        return None

    def price(self, thing: Any) -> int | None:
        """Return what passing `thing` costs besides the step, None where that is impossible."""
        if thing is None or thing.can_overlap():
            return 0
        if thing.type == "door":
            if thing in self.barred or not self.may_toggle:
                return None
            return _CLOSED if not thing.is_locked or self.has_key(thing) else _LOCKED
        return _BLOCKED if thing.can_pickup() and self.may_move else None

    def stroll(self, accepted: Callable[[Spot], bool]) -> list[Pose] | None:
        """Return the shortest way, without any obstacle, to look at an empty spot that is `accepted`."""
        start = self.pose()
        parents: dict[Pose, Pose | None] = {start: None}
        queue = deque([start])
        refused: set[Spot] = set()
        while queue:
            pose = queue.popleft()
            ahead = self.spot_ahead(pose)
            thing = self.level.grid.get(*ahead)
            if thing is None and ahead not in refused:
                if accepted(ahead):
                    way = [pose]
                    while (parent := parents[way[-1]]) is not None:
                        way.append(parent)
                    return way[::-1]
                refused.add(ahead)
            x, y, direction = pose
            after = [(x, y, (direction - 1) % 4), (x, y, (direction + 1) % 4)]
            if thing is None or thing.can_overlap():
                after.append((*ahead, direction))
            for turned in after:
                if turned not in parents:
                    parents[turned] = pose
                    queue.append(turned)
        return None

    def harmless(self, spot: Spot) -> bool:
        """Return whether everything that can be reached or touched now still can when `spot` is taken."""
        if spot == self.here():
            return False
        (free, touched), (free_after, touched_after) = self.reach(None), self.reach(spot)
        return free_after >= free - 1 and touched_after >= touched

    def reach(self, taken: Spot | None) -> tuple[int, set[Spot]]:
        """Return how many cells can be reached (through any door) and which objects and doors are next to them."""
        stack, seen, touched = [self.here()], {self.here()}, set()
        while stack:
            x, y = stack.pop()
            for dx, dy in STEPS:
                spot = (x + dx, y + dy)
                if spot in seen or spot == taken:
                    continue
                thing = self.level.grid.get(*spot)
                if thing is not None and thing.type != "wall":
                    touched.add(spot)
                if thing is None or thing.type == "door":
                    seen.add(spot)
                    stack.append(spot)
        return len(seen), touched

    # -- looking things up --------------------------------------------------------------------------------------

    def pose(self) -> Pose:
        return (*self.here(), int(self.level.agent_dir))

    def here(self) -> Spot:
        return int(self.level.agent_pos[0]), int(self.level.agent_pos[1])

    def ahead(self) -> Spot:
        return self.spot_ahead(self.pose())

    @staticmethod
    def spot_ahead(pose: Pose) -> Spot:
        x, y, direction = pose
        return x + STEPS[direction][0], y + STEPS[direction][1]

    def spot(self, thing: Any) -> Spot:
        at = next(at for at, cell in enumerate(self.level.grid.grid) if cell is thing)
        return at % self.level.width, at // self.level.width

    def on_grid(self, things: Iterable[Any]) -> list[Any]:
        return [thing for thing in things if any(cell is thing for cell in self.level.grid.grid)]

    def nearest(self, things: Iterable[Any]) -> Any:
        """Return the one that is cheapest to get to (and unlock); raises Stuck where there is none."""
        things = self.on_grid(things)
        if len(things) == 1:
            return things[0]
        at = {self.spot(thing): thing for thing in things}
        doors_to_unlock = {s for s, thing in at.items() if thing.type == "door" and thing.is_locked}
        for spots in (set(at) - doors_to_unlock, doors_to_unlock):
            way = self.route(spots) if spots else None
            if way is not None:
                return at[self.spot_ahead(way[-1])]
        raise Stuck

    def has_key(self, door: Any) -> bool:
        hand = self.level.carrying
        return hand is not None and hand.type == "key" and bool(hand.color == door.color)

    def needs_hands(self, thing: Any) -> bool:
        """Return whether getting past `thing` takes hands that are free now."""
        if thing is None or thing.can_overlap():
            return False
        return thing.type != "door" or (thing.is_locked and not self.has_key(thing))
