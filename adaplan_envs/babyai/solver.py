"""Solves a mission with minigrid's seven actions, knowing the whole grid.

minigrid's own bot explores with the agent's eyes and fails where a key is hidden in a box or the episode begins with
an object in hand. This one knows where everything is, so it only has to clear the way: it opens and unlocks doors,
fetches keys (also out of boxes) and carries off what blocks.
"""

from __future__ import annotations

from collections.abc import Callable
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

from adaplan_envs.babyai.field import Field, Pose, Spot, Stuck
from adaplan_envs.babyai.levels import DROP, FORWARD, LEFT, MILESTONE, PICKUP, RIGHT, TOGGLE, freeze, thaw
from adaplan_envs.babyai.view import STEPS
from adaplan_envs.errors import NoPlanError

_PATIENCE = 3000  # moves; a plan that gets so long goes in circles


class _Solved(Exception):
    """The mission is accomplished."""


class _PartDone(Exception):
    """The part of the mission that is being worked on is done."""


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
        except Stuck:
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


class _Solver(Field):
    """Plays on `level`, a copy, and notes its moves. Parts joined by "and" are done in turn or `backwards`."""

    def __init__(self, level: Any, backwards: bool) -> None:
        super().__init__(level)
        level.max_steps = 10**9
        self.backwards = backwards
        self.moves: list[int] = []
        self.part_done: Callable[[], bool] = lambda: False
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
                    raise Stuck
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
            _Solved, _PartDone, Stuck: it ended the mission, or the part worked on, or failed it.
        """
        _, reward, terminated, _, _ = self.level.step(move)
        self.moves.append(move)
        if terminated:
            raise _Solved if reward > 0 else Stuck
        if self.part_done():
            self.moves.append(MILESTONE)
            raise _PartDone
        if len(self.moves) > _PATIENCE:
            raise Stuck

    def look_away(self) -> None:
        """Do anything: the mission takes note of what there is only after a move."""
        self.do(LEFT)
        self.moves.append(MILESTONE)

    def face(self, spots: set[Spot]) -> None:
        """Stand in front of one of `spots`, looking at it; clear the way there."""
        while (way := self.route(spots)) is not None:
            if self.follow(way):
                return
        raise Stuck

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
            raise Stuck
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
        raise Stuck


_WORK: tuple[tuple[type, Callable[[_Solver, Any], None]], ...] = (
    (GoToInstr, _Solver.go_to),
    (OpenInstr, _Solver.open),
    (PickupInstr, _Solver.pick_up),
    (PutNextInstr, _Solver.put_next),
)
