"""What a game is about and how it stands, read from PDDL: the goal, the fixed part of a scene, the state."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from adaplan_envs.alfworld.engine import Engine, Problem
from adaplan_envs.errors import SimulatorError

APPLIANCES = {"clean": "sinkbasintype", "heat": "microwavetype", "cool": "fridgetype"}
"""Verb -> the type of receptacle that does it."""
STATES = {"clean": "isclean", "heat": "ishot", "cool": "iscool"}


@dataclass(frozen=True, slots=True)
class Game:
    """One game: what `Task.data` holds.

    Attributes:
        problem: the PDDL problem.
        task: what the agent is told, ``put a clean mug in coffeemachine``.
        walkthrough: commands that win it, where the source has them.
        receptacles, objects, distractors: how many there are; distractors are objects of another type than the goal's.
    """

    problem: str
    task: str
    walkthrough: tuple[str, ...]
    receptacles: int
    objects: int
    distractors: int


@dataclass(frozen=True, slots=True)
class Goal:
    """What has to be true in the end.

    Attributes:
        object: type of the object, ``mugtype``.
        receptacle: type of where it belongs, or None where it is to be looked at.
        verb: ``clean``, ``heat``, ``cool`` or None.
        lamp: type of the lamp to look at it by, or None.
        count: how many objects belong in the one receptacle.
    """

    object: str
    receptacle: str | None
    verb: str | None
    lamp: str | None
    count: int

    @classmethod
    def parse(cls, problem: str) -> Goal:
        """Read the goal of a PDDL problem.

        Raises:
            SimulatorError: it is not one of ALFWorld's six kinds.
        """
        text = problem.lower().partition("(:goal")[2]
        kinds = re.findall(r"\(objecttype \?(\w+) (\w+)\)", text)
        receptacles = re.findall(r"\(receptacletype \?\w+ (\w+)\)", text)
        lamps = set(re.findall(r"\(istoggled \?(\w+)\)", text))
        objects = {kind for variable, kind in kinds if variable not in lamps}
        lit = {kind for variable, kind in kinds if variable in lamps}
        verbs = [verb for verb, state in STATES.items() if f"({state} " in text]
        if len(objects) != 1 or len(set(receptacles)) + len(lit) != 1 or len(verbs) > 1 or "issliced" in text:
            raise SimulatorError(f"not a goal of ALFWorld's six kinds: {' '.join(text.split())[:300]}")
        return cls(
            object=objects.pop(),
            receptacle=receptacles[0] if receptacles else None,
            verb=verbs[0] if verbs else None,
            lamp=lit.pop() if lit else None,
            count=2 if "(not (=" in text else 1,
        )


class Scene:
    """The fixed part of a game. All entities are ids; `name` and `find` go to and from the names in the text."""

    def __init__(self, problem: Problem, goal: Goal) -> None:
        facts = problem.start
        self.goal = goal
        self.entities = problem.entities
        self.object_type: dict[str, str] = dict(_pairs(facts, "objecttype"))
        self.receptacle_type: dict[str, str] = dict(_pairs(facts, "receptacletype"))
        self.location: dict[str, str] = dict(sorted(_pairs(facts, "receptacleatlocation")))
        """Receptacle -> where one stands to use it; without those that can't be reached."""
        self.openable = _singles(facts, "openable")
        self.portable = _singles(facts, "pickupable")
        self.toggleable = _singles(facts, "toggleable")
        self.sliceable = _singles(facts, "sliceable")
        self.able = {verb: _singles(facts, f"{verb}able") for verb in APPLIANCES}
        self._holds = set(_pairs(facts, "cancontain"))

    @cached_property
    def find(self) -> dict[str, str]:
        """Name in the text -> id, of receptacles and objects."""
        things = [*self.object_type, *self.receptacle_type]
        return {self.entities[thing].name: thing for thing in things if thing in self.entities}

    def name(self, thing: str) -> str:
        """Return the name that the text uses."""
        return self.entities[thing].name

    def fits(self, thing: str, receptacle: str) -> bool:
        """Whether `receptacle` is of a type that can hold `thing`."""
        return (self.receptacle_type[receptacle], self.object_type[thing]) in self._holds

    def receptacles(self, kind: str) -> list[str]:
        """Return the reachable receptacles of a type, in a fixed order."""
        return [receptacle for receptacle in self.location if self.receptacle_type.get(receptacle) == kind]

    def homes(self, thing: str) -> list[str]:
        """Return the reachable receptacles that can hold `thing`, in a fixed order."""
        return [place for place in self.location if place in self.receptacle_type and self.fits(thing, place)]

    @cached_property
    def goal_objects(self) -> list[str]:
        """The objects of the goal's type, in a fixed order."""
        kind = self.goal.object
        return sorted(thing for thing, its in self.object_type.items() if its == kind and thing in self.portable)

    @cached_property
    def goal_receptacles(self) -> list[str]:
        """The reachable receptacles of the goal's type, in a fixed order."""
        return self.receptacles(self.goal.receptacle) if self.goal.receptacle else []


class State:
    """How a game stands at this moment."""

    def __init__(self, scene: Scene, engine: Engine) -> None:
        facts = engine.facts
        self.scene = scene
        self.at = next(iter(facts["atlocation"]))[1]
        self.held = next((args[1] for args in facts.get("holds", ())), None)
        self.inside: set[tuple[str, str]] = {(args[0], args[1]) for args in facts.get("inreceptacle", ())}
        """(object, receptacle)"""
        self.opened = _singles(facts, "opened")
        self.lit = _singles(facts, "istoggled")
        self.done = {verb: _singles(facts, state) for verb, state in STATES.items()}

    def places(self, thing: str) -> list[str]:
        """Return the reachable receptacles that `thing` is in, in a fixed order."""
        return sorted(place for other, place in self.inside if other == thing and place in self.scene.location)

    def closed(self, receptacle: str) -> bool:
        """Whether `receptacle` has to be opened first."""
        return receptacle in self.scene.openable and receptacle not in self.opened

    def here(self, receptacle: str) -> bool:
        """Whether the agent stands at `receptacle`."""
        return self.scene.location.get(receptacle) == self.at

    def conditions(self) -> tuple[int, int]:
        """Return how many of the goal's conditions hold, and how many there are (as ALFRED counts them)."""
        scene, goal = self.scene, self.scene.goal
        if goal.lamp:
            lamps = [
                thing
                for thing in scene.toggleable & self.lit
                if scene.object_type.get(thing) == goal.lamp and any(map(self.here, self.places(thing)))
            ]
            return bool(lamps) + (self.held in scene.goal_objects), 2
        placed = [
            {thing for thing in scene.goal_objects if (thing, place) in self.inside} for place in scene.goal_receptacles
        ]
        if goal.verb:
            ready = self.done[goal.verb] & set(scene.goal_objects)
            there = set().union(*placed)
            return bool(ready) + bool(there) + bool(ready & there), 3
        return min(goal.count, max(map(len, placed), default=0)), goal.count


def _pairs(facts: dict[str, frozenset[tuple[str, ...]]], predicate: str) -> list[tuple[str, str]]:
    return [(args[0], args[1]) for args in facts.get(predicate, ())]


def _singles(
    facts: dict[str, frozenset[tuple[str, ...]]] | dict[str, set[tuple[str, ...]]], predicate: str
) -> set[str]:
    return {args[0] for args in facts.get(predicate, ())}
