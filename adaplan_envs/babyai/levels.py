"""Which levels there are, how tasks map to them, and minigrid's level made silent, lean and easy to copy."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from functools import cache
from typing import Any

import gymnasium
import minigrid  # noqa: F401 - registers the BabyAI levels with gymnasium
from gymnasium.envs.registration import load_env_creator
from minigrid.core.roomgrid import RoomGrid
from minigrid.envs.babyai.core.roomgrid_level import RejectSampling
from minigrid.envs.babyai.core.verifier import AndInstr, BeforeInstr, OpenInstr, PickupInstr, SeqInstr

from adaplan_envs.babyai.view import STEPS, Cell, look
from adaplan_envs.errors import check_name

LEVELS: tuple[str, ...] = tuple(
    f"BabyAI-{name}-v0"
    for name in (
        *("GoToRedBallGrey", "GoToRedBall", "GoToRedBallNoDists", "GoToObjS4", "GoToLocalS8N7", "GoToObjMazeS7"),
        *("GoToImpUnlock", "GoToSeqS5R2", "GoToRedBlueBall", "GoToDoor", "GoToObjDoor"),
        *("Open", "OpenRedDoor", "OpenDoorLoc", "OpenRedBlueDoorsDebug", "OpenDoorsOrderN4Debug"),
        *("Pickup", "UnblockPickup", "PickupLoc", "PickupDistDebug", "PickupAbove"),
        *("PutNextLocalS6N4", "PutNextS7N4Carrying"),
        *("Unlock", "UnlockLocalDist", "KeyInBox", "UnlockPickupDist", "BlockedUnlockPickup", "UnlockToUnlock"),
        *("ActionObjDoor", "FindObjS7", "KeyCorridorS6R3", "OneRoomS20", "MoveTwoAcrossS8N9"),
        *("SynthS5R2", "SynthLoc", "SynthSeq", "MiniBossLevel", "BossLevel", "BossLevelNoUnlock"),
    )
)
"""AgentGym's 40 levels in its order; its ``GoToObjS6-v0`` was four cells wide and is called ``GoToObjS4-v0`` today."""

SPLITS: dict[str, int] = {"train": 4000, "test": 400, "agentgym": 12000}
"""Task counts: 100 and 10 seeds of each level, and the first 300 of AgentGym's."""

_FIRST_SEED = {"test": 1_000_000, "train": 2_000_000}

_FEW = frozenset({"BabyAI-GoToObjS4-v0", "BabyAI-OpenRedDoor-v0", "BabyAI-OpenRedBlueDoorsDebug-v0"})
"""Levels with so few different missions that two seeds are often alike."""

LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = range(7)
"""minigrid's actions."""

MILESTONE = -1
"""Stands in a plan after an action by which the mission proceeds, be it only by looking: not to be skipped."""


def follow(planned: list[int], move: int) -> list[int]:
    """Return what is left of a plan after `move` was played: nothing, if the plan held another."""
    while planned[:1] == [MILESTONE]:
        planned = planned[1:]
    return planned[1:] if planned[:1] == [move] else []


def find(split: str, index: int) -> tuple[str, int, Any]:
    """Return level id, minigrid's seed and the level itself of a task. `split` may be a level id, `index` its seed.

    Raises:
        UnknownNameError: minigrid has no such BabyAI level.
    """
    number, nth = index % len(LEVELS), index // len(LEVELS)
    if split not in _FIRST_SEED:
        level_id, seed = (LEVELS[number], nth) if split == "agentgym" else (split, index)
        return level_id, seed, build(level_id, seed)
    # Seeds differ from level to level too: some levels share a generator.
    level_id, seed = LEVELS[number], _FIRST_SEED[split] + 1000 * number + nth
    level = build(level_id, seed)
    while not _solvable(level, level.instrs) or (split == "train" and _is_test(level_id, level)):
        seed += 10_000_000
        level = build(level_id, seed)
    return level_id, seed, level


def _is_test(level_id: str, level: Any) -> bool:
    """Return whether a training task equals a test task, which happens where there are few missions."""
    return level_id in _FEW and _picture(level) in _test_pictures(LEVELS.index(level_id))


@cache
def _test_pictures(number: int) -> frozenset[Any]:
    return frozenset(_picture(find("test", index)[2]) for index in range(number, SPLITS["test"], len(LEVELS)))


def _picture(level: Any) -> tuple[Any, ...]:
    position = (int(level.agent_pos[0]), int(level.agent_pos[1]), int(level.agent_dir))
    return level.mission, position, level.grid.encode().tobytes()


def _solvable(level: Any, instr: Any) -> bool:
    """Return whether a fresh mission can be accomplished. Some can't, for three reasons.

    minigrid checks the second part of a mission against the move that completed the first, and a strict "open" takes
    that door for a wrong one (OpenDoorsOrderN4Debug). It may lock a key up behind its own door (Unlock, GoToImpUnlock).
    And what is to be picked up may stand behind objects that must not be (PickupDistDebug).
    """
    if isinstance(instr, SeqInstr):
        second = instr.instr_b if isinstance(instr, BeforeInstr) else instr.instr_a
        if not isinstance(instr, AndInstr) and isinstance(second, OpenInstr) and second.strict:
            return False
        return _solvable(level, instr.instr_a) and _solvable(level, instr.instr_b)
    walkable = _walkable(level, isinstance(instr, PickupInstr) and instr.strict)
    if isinstance(instr, OpenInstr):
        return not walkable.isdisjoint(instr.desc.obj_poss)
    beside = {(x + dx, y + dy) for x, y in walkable for dx, dy in STEPS}
    goals = [getattr(instr, name).obj_poss for name in ("desc", "desc_move", "desc_fixed") if hasattr(instr, name)]
    return not any(beside.isdisjoint(places) for places in goals)


def _walkable(level: Any, fixed: bool) -> set[tuple[int, int]]:
    """Return the cells that can be walked on sooner or later: all but walls, and what keys out of reach lock off.

    Objects can be carried off, unless they are `fixed`.
    """
    start = (int(level.agent_pos[0]), int(level.agent_pos[1]))
    walkable, stack, keys, locked = {start}, [start], set(), []
    while stack:
        x, y = stack.pop()
        for dx, dy in STEPS:
            spot = (x + dx, y + dy)
            thing = level.grid.get(*spot)
            blocks = thing is not None and (thing.type == "wall" or (fixed and thing.can_pickup()))
            if spot in walkable or blocks:
                continue
            if thing is not None and thing.type == "door" and thing.is_locked and thing.color not in keys:
                locked.append((thing.color, spot))
                continue
            walkable.add(spot)
            stack.append(spot)
            key = thing.contains if thing is not None and thing.type == "box" else thing
            if key is not None and key.type == "key":
                keys.add(key.color)
                opened = {at for color, at in locked if color == key.color}
                walkable |= opened
                stack += opened
    return walkable


def level_ids() -> list[str]:
    """Return the ids of all BabyAI levels that the installed minigrid registers."""
    return sorted(name for name in gymnasium.registry if name.startswith("BabyAI-"))


class _Lean:
    """Mixed into a minigrid level: generates without printing, steps without drawing the image nobody reads.

    Attributes:
        first_look: what is seen where minigrid draws the first image of an episode. Levels that start with an object
            in hand take it up only after that, so the image shows it where it lay.
    """

    first_look: list[Cell]

    def _gen_grid(self: Any, width: int, height: int) -> None:
        while True:  # minigrid's own loop, less its prints; both draw the same random numbers
            try:
                RoomGrid._gen_grid(self, width, height)
                self.gen_mission()
                self.validate_instrs(self.instrs)
            except (RecursionError, RejectSampling):
                continue
            break
        self.mission = self.surface = self.instrs.surface(self)

    def gen_obs(self: Any) -> None:
        if self.step_count == 0:
            self.first_look = look(self)


@cache
def _recipe(level_id: str) -> tuple[type, dict[str, Any]]:
    check_name("BabyAI level", level_id, level_ids())
    spec = gymnasium.spec(level_id)
    creator: Any = load_env_creator(str(spec.entry_point))
    return type(f"Lean{creator.__name__}", (_Lean, creator), {}), dict(spec.kwargs)


def _bare(level_id: str) -> Any:
    cls, kwargs = _recipe(level_id)
    return cls(**kwargs)


def build(level_id: str, seed: int) -> Any:
    """Return minigrid's level, reset with `seed`: a fresh one, since levels carry leftovers from reset to reset.

    Every object gets a ``uid`` that copies keep.

    Raises:
        UnknownNameError: minigrid has no such BabyAI level.
    """
    level = _bare(level_id)
    level.reset(seed=seed)
    objects = [cell for cell in level.grid.grid if cell is not None]
    objects += [cell.contains for cell in objects if cell.contains is not None]
    if level.carrying is not None:
        objects.append(level.carrying)
    for uid, thing in enumerate(objects):
        thing.uid = uid
    return level


def instructions(instr: Any) -> Iterator[Any]:
    """Yield `instr` and all that it consists of."""
    yield instr
    if hasattr(instr, "instr_a"):
        yield from instructions(instr.instr_a)
        yield from instructions(instr.instr_b)


_STATE = ("grid", "room_grid", "agent_pos", "agent_dir", "carrying", "step_count", "max_steps", "mission", "instrs")


def freeze(level: Any, *more: Any) -> bytes:
    """Return the state of `level`, and `more` that refers to its objects, as bytes. `thaw` undoes it.

    The level itself, with its spaces and generators, stays out: the instructions' references to it are cut meanwhile.
    """
    parts = list(instructions(level.instrs))
    for part in parts:
        part.env = None
    try:
        return pickle.dumps(([getattr(level, name) for name in _STATE], more), protocol=5)
    finally:
        for part in parts:
            part.env = level


def thaw(level_id: str, frozen: bytes) -> tuple[Any, ...]:
    """Return a new level in the `frozen` state, followed by what else was frozen with it."""
    level = _bare(level_id)
    values, more = pickle.loads(frozen)
    for name, value in zip(_STATE, values, strict=True):
        setattr(level, name, value)
    for part in instructions(level.instrs):
        part.env = level
    return level, *more
