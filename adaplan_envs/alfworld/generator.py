"""Embedded games: seeded scenes after ALFRED's floor plans, every one solvable and without dead ends.

A scene keeps the receptacles of its floor plan, all or some, and fills them with objects that belong there. Every
object starts where its type may be put, and nothing is ever full: so whatever is taken can be put back.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from adaplan_envs.alfworld.world import Game
from adaplan_envs.core import stable_rng

GOALS = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)
VERBS = {GOALS[2]: "clean", GOALS[3]: "heat", GOALS[4]: "cool"}
APPLIANCES = {"clean": "SinkBasin", "heat": "Microwave", "cool": "Fridge"}
LAMP = "DeskLamp"
LAMP_STANDS = ("Desk", "Dresser", "Shelf", "SideTable")
NAMED_IN_DOMAIN = ("Knife", "ButterKnife"), ("SinkBasin", "Microwave", "Fridge")
"""Types that the domain's actions speak of, so that every problem must declare them."""


class Level(NamedTuple):
    """How large a scene is, at most."""

    receptacles: int
    distractors: int


LEVELS = (Level(6, 4), Level(12, 8), Level(18, 14))
"""By difficulty, from 1."""


class Choice(NamedTuple):
    """A goal that a floor plan allows."""

    scene: dict[str, Any]
    object: str
    target: str
    """Where it belongs; where the lamp stands if it is to be looked at."""


@cache
def tables() -> dict[str, Any]:
    """Return the floor plans and affinities (see data/SOURCES.md)."""
    data = files("adaplan_envs.alfworld").joinpath("data", "scenes.json")
    content: dict[str, Any] = json.loads(data.read_text(encoding="utf-8"))
    return content


@cache
def _choices(goal: str, held_out: bool) -> dict[int, list[Choice]]:
    """Return what can be asked for in each floor plan that can serve `goal`, by its number."""
    data = tables()
    holds, verb = data["holds"], VERBS.get(goal)
    found: dict[int, list[Choice]] = {}
    for scene in data["scenes"]:
        receptacles = scene["receptacles"]
        if scene["held_out"] != held_out or scene["kind"] not in data["goals"][goal]["kinds"]:
            continue
        if goal == GOALS[1]:
            stands = [name for name in LAMP_STANDS if name in receptacles] if scene["desk_lamp"] else []
            choices = [
                Choice(scene, thing, stand)
                for thing in scene["objects"]
                for stand in stands
                if any(thing in holds[place] for place in receptacles)
            ]
        else:
            if verb and APPLIANCES[verb] not in receptacles:
                continue
            choices = [
                Choice(scene, thing, target)
                for thing in scene["objects"]
                if not verb or thing in data["affords"][verb]
                for target in receptacles
                if thing in holds[target]
                and not (verb and target == APPLIANCES[verb])
                and any(thing in holds[place] for place in receptacles if place != target)
            ]
        if choices:
            found[scene["number"]] = choices
    return found


def make_game(split: str, index: int) -> tuple[Game, int]:
    """Return embedded game `index` of `split` and its difficulty.

    ``train`` plays in the floor plans that ALFRED trains in, ``test`` in those that it holds out. Goals and
    difficulties take turns.
    """
    rng = stable_rng("alfworld", split, index)
    goal = GOALS[index % len(GOALS)]
    difficulty = 1 + index // len(GOALS) % len(LEVELS)
    scenes = _choices(goal, split == "test")
    choice = rng.choice(scenes[rng.choice(sorted(scenes))])
    return _Builder(goal, choice, LEVELS[difficulty - 1], rng).build(), difficulty


class _Builder:
    def __init__(self, goal: str, choice: Choice, level: Level, rng: random.Random) -> None:
        self.goal, self.choice, self.level, self.rng = goal, choice, level, rng
        self.verb = VERBS.get(goal)
        self.holds: dict[str, list[str]] = tables()["holds"]
        self.receptacles: list[tuple[str, str]] = []
        """(type, id)"""
        self.objects: list[tuple[str, str, str]] = []
        """(type, id, id of the receptacle)"""
        self.count: Counter[str] = Counter()

    def build(self) -> Game:
        self._furnish()
        look = self.goal == GOALS[1]
        thing, target = self.choice.object, self.choice.target
        if look:
            self._place(LAMP, [name for kind, name in self.receptacles if kind == target][:1])
        sources = [name for kind, name in self.receptacles if thing in self.holds[kind] and (look or kind != target)]
        wanted = 2 if self.goal == GOALS[5] else 1
        for _ in range(wanted + self.rng.randrange(2)):
            self._place(thing, sources)
        distractors = self._clutter()
        template = self.rng.choice(tables()["goals"][self.goal]["templates"])
        words = template.format(obj=thing.lower(), recep=target.lower(), toggle=LAMP.lower())
        return Game(self._problem(), words, (), len(self.receptacles), len(self.objects), distractors)

    def _furnish(self) -> None:
        """Choose receptacles: those that the goal needs, then any."""
        thing, target, plan = self.choice.object, self.choice.target, self.choice.scene["receptacles"]
        sources = [kind for kind in plan if thing in self.holds[kind] and kind != target]
        if not sources:
            sources = [target]  # looked at by a lamp on the one thing that can hold it
        needed = dict.fromkeys([target, self.rng.choice(sources), *([APPLIANCES[self.verb]] if self.verb else [])])
        spare = [kind for kind, number in plan.items() for _ in range(number - (kind in needed))]
        self.rng.shuffle(spare)
        kinds = [*needed, *spare][: self.level.receptacles]
        numbers: Counter[str] = Counter()
        for kind in kinds:
            numbers[kind] += 1
            # A basin is named after what it is part of, and so the text knows it.
            stem, tail = (kind.removesuffix("Basin"), f"_bar_{kind}") if kind.endswith("Basin") else (kind, "")
            self.receptacles.append((kind, f"{stem}_bar_{numbers[kind]:02d}{tail}"))

    def _place(self, kind: str, places: list[str]) -> None:
        self.count[kind] += 1
        self.objects.append((kind, f"{kind}_bar_{self.count[kind]:02d}", self.rng.choice(places)))

    def _clutter(self) -> int:
        """Add objects that the goal does not ask for and return how many."""
        present = [kind for kind in self.choice.scene["objects"] if kind != self.choice.object]
        homes = {kind: [name for its, name in self.receptacles if kind in self.holds[its]] for kind in present}
        able = [kind for kind in present if homes[kind]]
        added = 0
        for _ in range(self.level.distractors if able else 0):
            kind = self.rng.choice(able)
            if self.count[kind] < 3:
                self._place(kind, homes[kind])
                added += 1
        return added

    def _problem(self) -> str:
        data = tables()
        kinds = list(dict.fromkeys([kind for kind, _, _ in self.objects] + list(NAMED_IN_DOMAIN[0])))
        places = list(dict.fromkeys([kind for kind, _ in self.receptacles] + list(NAMED_IN_DOMAIN[1])))
        where = {name: f"loc_bar_{number}" for number, (_, name) in enumerate(self.receptacles, 1)}
        declared = [
            "agent1 - agent",
            *(f"{kind}Type - otype" for kind in kinds),
            *(f"{kind}Type - rtype" for kind in places),
            *(f"{name} - object" for _, name, _ in self.objects),
            *(f"{name} - receptacle" for _, name in self.receptacles),
            *(f"loc_bar_{number} - location" for number in range(len(self.receptacles) + 1)),
        ]
        facts = ["atLocation agent1 loc_bar_0"]
        for kind, name in self.receptacles:
            facts += [f"receptacleType {name} {kind}Type", f"receptacleAtLocation {name} {where[name]}"]
            if kind in data["openable"]:
                facts.append(f"openable {name}")
        for place in places:
            facts += [f"canContain {place}Type {kind}Type" for kind in kinds if kind in self.holds[place]]
        for kind, name, place in self.objects:
            facts += [f"objectType {name} {kind}Type", f"inReceptacle {name} {place}"]
            facts.append(f"objectAtLocation {name} {where[place]}")
            facts.append(f"toggleable {name}" if kind == LAMP else f"pickupable {name}")
            facts += [f"{verb}able {name}" for verb in APPLIANCES if kind in data["affords"][verb]]
            facts += [f"sliceable {name}"] if kind in data["affords"]["slice"] else []
            facts += [f"isReceptacleObject {name}"] if kind in data["vessels"] else []
        goal = data["goals"][self.goal]["pddl"].format(obj=self.choice.object, recep=self.choice.target, toggle=LAMP)
        lines = "\n".join(f"({fact})" for fact in facts)
        objects = "\n".join(declared)
        return f"(define (problem embedded)\n(:domain alfred)\n(:objects\n{objects}\n)\n(:init\n{lines}\n)\n{goal}\n)\n"
