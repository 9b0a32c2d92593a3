"""Solves a mission with minigrid's seven actions, knowing the whole grid.

minigrid's own bot explores with the agent's eyes and fails where a key is hidden in a box or the episode begins with
an object in hand. This one knows where everything is, so it only has to clear the way: it opens and unlocks doors,
fetches keys (also out of boxes) and carries off what blocks.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

from minigrid.envs.babyai.core.verifier import (
    AfterInstr,
    AndInstr,
    GoToInstr,
    OpenInstr,
    PickupInstr,
    PutNextInstr,
    SeqInstr,
)

from adaplan_envs.babyai.levels import DROP, FORWARD, LEFT, MILESTONE, PICKUP, RIGHT, TOGGLE, freeze, thaw
from adaplan_envs.babyai.view import STEPS
from adaplan_envs.errors import NoPlanError

Spot = tuple[int, int]
Pose = tuple[int, int, int]

# What an obstacle adds to the cost of a way, in moves: roughly what it takes to remove it.
_CLOSED, _LOCKED, _BLOCKED = 1, 40, 8
_PATIENCE = 3000  # moves; a plan that gets so long goes in circles


class _Solved(Exception):
    """The mission is accomplished."""


class _PartDone(Exception):
    """The part of the mission that is being worked on is done."""


class _Stuck(Exception):
    """The solver knows no way on."""


def solve(level_id: str, level: Any) -> list[int]:
    """Return minigrid actions that accomplish the mission from the current state of `level`, which stays as it is.

    After each by which the mission itself proceeds stands `MILESTONE`.

    Raises:
        NoPlanError: none were found.
    """
    frozen = freeze(level)
    plans = []
    for backwards in (False, True):
        solver = _Solver(thaw(level_id, frozen)[0], backwards)
        try:
            solver.mission(solver.level.instrs, lambda: False)
        except _Solved:
            plans.append([*solver.moves, MILESTONE])
        except _Stuck:
            pass
        if not _has_choice(level.instrs):
            break
    if not plans:
        raise NoPlanError(f"no way to accomplish this mission any more: {level.mission}")
    return min(plans, key=len)


def _has_choice(instr: Any) -> bool:
    if not isinstance(instr, SeqInstr):
        return False
    return isinstance(instr, AndInstr) or _has_choice(instr.instr_a) or _has_choice(instr.instr_b)


class _Solver:
    """Plays on `level`, a copy, and notes its moves. Parts joined by "and" are done in turn or `backwards`."""

    def __init__(self, level: Any, backwards: bool) -> None:
        level.max_steps = 10**9
        self.level, self.backwards = level, backwards
        self.moves: list[int] = []
        self.part_done: Callable[[], bool] = lambda: False
        self.barred: list[Any] = []
        """Doors that must not be relied on, because their key is being fetched."""
        self.may_toggle = self.may_move = True
        self.keep_free: set[Spot] = set()

    # -- the mission --------------------------------------------------------------------------------------------

    def mission(self, instr: Any, done: Callable[[], bool]) -> None:
        """Do `instr`; return when `done`."""
        if isinstance(instr, SeqInstr):
            parts: list[tuple[Any, Callable[[], bool]]] = [
                (instr.instr_a, lambda: bool(instr.a_done == "success")),
                (instr.instr_b, lambda: bool(instr.b_done == "success")),
            ]
            if isinstance(instr, AfterInstr) or (isinstance(instr, AndInstr) and self.backwards):
                parts.reverse()
            for part, part_done in parts:
                if not part_done():
                    self.mission(part, part_done)
            return
        work = next(work for kind, work in _WORK if isinstance(instr, kind))
        strict = getattr(instr, "strict", False)
        self.may_toggle = not (strict and isinstance(instr, OpenInstr))
        self.may_move = not (strict and isinstance(instr, PickupInstr | PutNextInstr))
        self.part_done = done
        try:
            while True:
                before = len(self.moves)
                work(self, instr)
                if len(self.moves) == before:
                    raise _Stuck
        except _PartDone:
            self.barred.clear()
            self.keep_free = set()

    def go_to(self, instr: Any) -> None:
        spots = set(instr.desc.obj_poss)  # the verifier's own: what was picked up counts where it lay until a drop
        if not spots and self.level.carrying in instr.desc.obj_set:
            self.free_hands()
        elif self.ahead() in spots:
            self.look_away()
        else:
            self.face(spots)

    def open(self, instr: Any) -> None:
        door = self.nearest(instr.desc.obj_set)
        if door.is_locked and not self.has_key(door):
            if not any(self.needs_hands(self.level.grid.get(x, y)) for x, y, _ in self.route({self.spot(door)}) or ()):
                self.fetch_key(door)
            self.face({self.spot(door)})
        else:
            self.face({self.spot(door)})
            self.do(TOGGLE)

    def pick_up(self, instr: Any) -> None:
        if self.level.carrying in instr.desc.obj_set:
            self.free_hands()
        else:
            self.take(self.nearest(thing for thing in instr.desc.obj_set if thing.can_pickup()))  # "object": walls too

    def put_next(self, instr: Any) -> None:
        level = self.level
        if level.carrying not in instr.desc_move.obj_set:
            self.take(self.nearest(instr.desc_move.obj_set))
            return
        fixed = [self.spot(thing) for thing in self.on_grid(instr.desc_fixed.obj_set)]
        beside = {(x + dx, y + dy) for x, y in fixed for dx, dy in STEPS}
        free = {spot for spot in beside if level.grid.get(*spot) is None}
        way = self.route(free)
        if way is None:  # no room beside it: make some
            movable = [cell for spot in beside if (cell := level.grid.get(*spot)) is not None and cell.can_pickup()]
            self.keep_free = beside
            self.free_hands()
            self.take(self.nearest(movable))
            self.free_hands()
        elif any(self.needs_hands(level.grid.get(x, y)) for x, y, _ in way[1:]):
            self.keep_free = {(x, y) for x, y, _ in way} | {self.spot_ahead(way[-1])}
            self.free_hands()
            self.face(free)
        else:
            self.follow(way)
            if self.ahead() in free:
                if instr.preCarrying is level.carrying:
                    self.do(DROP)
                else:  # the mission must have seen it carried before it is dropped
                    self.look_away()

    # -- getting somewhere --------------------------------------------------------------------------------------

    def do(self, move: int) -> None:
        """Play a move.

        Raises:
            _Solved, _PartDone, _Stuck: it ended the mission, or the part worked on, or failed it.
        """
        _, reward, terminated, _, _ = self.level.step(move)
        self.moves.append(move)
        if terminated:
            raise _Solved if reward > 0 else _Stuck
        if self.part_done():
            self.moves.append(MILESTONE)
            raise _PartDone
        if len(self.moves) > _PATIENCE:
            raise _Stuck

    def look_away(self) -> None:
        """Do anything: the mission takes note of what there is only after a move."""
        self.do(LEFT)
        self.moves.append(MILESTONE)

    def face(self, spots: set[Spot]) -> None:
        """Stand in front of one of `spots`, looking at it; clear the way there."""
        while (way := self.route(spots)) is not None:
            if self.follow(way):
                return
        raise _Stuck

    def follow(self, way: list[Pose]) -> bool:
        """Walk along `way` up to its first obstacle and work on that. Return whether the end was reached."""
        for (_, _, before), (x, y, direction) in pairwise(way):
            if direction != before:
                self.do(RIGHT if direction == (before + 1) % 4 else LEFT)
                continue
            thing = self.level.grid.get(x, y)
            if thing is None or thing.can_overlap():
                self.do(FORWARD)
                continue
            self.clear(thing, way)
            return False
        return True

    def clear(self, thing: Any, way: list[Pose]) -> None:
        """Work on the obstacle in front."""
        if thing.type == "door":
            if thing.is_locked and not self.has_key(thing):
                self.fetch_key(thing)
            else:
                self.do(TOGGLE)
        elif self.level.carrying is None:
            self.do(PICKUP)
        else:
            self.keep_free |= {(x, y) for x, y, _ in way}
            self.free_hands()

    def fetch_key(self, door: Any) -> None:
        """Take a key for `door`, out of a box if need be."""
        if door in self.barred:
            raise _Stuck
        self.barred.append(door)
        keys = [
            thing
            for thing in self.level.grid.grid
            for key in [thing.contains if thing is not None and thing.type == "box" else thing]
            if key is not None and key.type == "key" and key.color == door.color
        ]
        hand = self.level.carrying
        if not keys and hand is not None and hand.contains is not None and hand.contains.type == "key":
            self.free_hands()
            keys = [hand]
        key = self.nearest(keys)
        if key.type == "box":
            spot = self.spot(key)
            self.face({spot})
            self.do(TOGGLE)
            key = self.level.grid.get(*spot)
        self.take(key)
        self.barred.remove(door)

    def take(self, thing: Any) -> None:
        """Pick `thing` up."""
        spot = self.spot(thing)
        while self.level.grid.get(*spot) is thing:
            self.face({spot})  # whatever is in hand comes along: it may be the key to a door on the way
            if self.level.carrying is None:
                self.do(PICKUP)
            else:
                self.free_hands()

    def free_hands(self) -> None:
        """Drop what is carried on the nearest spot where it is not in the way."""
        if self.level.carrying is None:
            return
        tries: list[Callable[[Spot], bool]] = [
            lambda spot: spot not in self.keep_free and self.harmless(spot),
            self.harmless,
            lambda spot: spot not in self.keep_free,
            lambda spot: True,
        ]
        for accepted in tries:
            way = self.stroll(accepted)
            if way is not None:
                self.follow(way)
                self.do(DROP)
                return
        raise _Stuck

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
        """Return the one that is cheapest to get to (and unlock); raises _Stuck where there is none."""
        things = self.on_grid(things)
        if len(things) == 1:
            return things[0]
        at = {self.spot(thing): thing for thing in things}
        doors_to_unlock = {s for s, thing in at.items() if thing.type == "door" and thing.is_locked}
        for spots in (set(at) - doors_to_unlock, doors_to_unlock):
            way = self.route(spots) if spots else None
            if way is not None:
                return at[self.spot_ahead(way[-1])]
        raise _Stuck

    def has_key(self, door: Any) -> bool:
        hand = self.level.carrying
        return hand is not None and hand.type == "key" and bool(hand.color == door.color)

    def needs_hands(self, thing: Any) -> bool:
        """Return whether getting past `thing` takes hands that are free now."""
        if thing is None or thing.can_overlap():
            return False
        return thing.type != "door" or (thing.is_locked and not self.has_key(thing))


_WORK: tuple[tuple[type, Callable[[_Solver, Any], None]], ...] = (
    (GoToInstr, _Solver.go_to),
    (OpenInstr, _Solver.open),
    (PickupInstr, _Solver.pick_up),
    (PutNextInstr, _Solver.put_next),
)
