"""The expert: plans over the engine's facts, from any state."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from adaplan_envs.alfworld.world import APPLIANCES, State
from adaplan_envs.errors import NoPlanError


class Step(NamedTuple):
    """One command and what it is for."""

    command: str
    words: str


class _Draft:
    """A plan in the making: where it has led so far, without asking the engine."""

    def __init__(self, state: State) -> None:
        self.state, self.scene = state, state.scene
        self.at, self.held = state.at, state.held
        self.opened = set(state.opened)
        self.inside = set(state.inside)
        self.steps: list[Step] = []

    def _say(self, command: str, words: str) -> None:
        self.steps.append(Step(command, words))

    def effort(self, place: str) -> tuple[int, str]:
        """Return the commands needed before something can be put into `place`; the id breaks ties."""
        closed = place in self.scene.openable and place not in self.opened
        return (self.scene.location[place] != self.at) + closed, place

    def go(self, place: str, why: str) -> None:
        if self.scene.location[place] != self.at:
            name = self.scene.name(place)
            self._say(f"go to {name}", f"Go to {name} {why}")
            self.at = self.scene.location[place]

    def open(self, place: str) -> None:
        if place in self.scene.openable and place not in self.opened:
            name = self.scene.name(place)
            self._say(f"open {name}", f"Open {name}")
            self.opened.add(place)

    def take(self, thing: str) -> None:
        """Get `thing` in hand, putting down first what is there."""
        if self.held == thing:
            return
        if self.held is not None:
            self.drop()
        places = [place for other, place in self.inside if other == thing and place in self.scene.location]
        if not places:
            raise NoPlanError(f"{self.scene.name(thing)} can't be reached")
        place = min(places, key=self.effort)
        name, where = self.scene.name(thing), self.scene.name(place)
        self.go(place, f"to get {name}")
        self.open(place)
        self._say(f"take {name} from {where}", f"Take {name} from {where}")
        self.inside.discard((thing, place))
        self.held = thing

    def put(self, place: str) -> None:
        """Put what is in hand into `place`."""
        assert self.held is not None
        name, where = self.scene.name(self.held), self.scene.name(place)
        self.go(place, f"to put {name} there")
        self.open(place)
        self._say(f"move {name} to {where}", f"Put {name} in or on {where}")
        self.inside.add((self.held, place))
        self.held = None

    def drop(self) -> None:
        """Put down what is in hand wherever it is least work."""
        assert self.held is not None
        homes = self.scene.homes(self.held)
        if not homes:
            raise NoPlanError(f"nothing here can hold {self.scene.name(self.held)}, so the hand never gets free")
        self.put(min(homes, key=self.effort))

    def prepare(self, thing: str, verb: str) -> None:
        """Clean, heat or cool `thing`, unless that is done."""
        if thing in self.state.done[verb]:
            return
        appliances = self.scene.receptacles(APPLIANCES[verb])
        if not appliances:
            raise NoPlanError(f"there is nothing here to {verb} with")
        place = min(appliances, key=lambda place: (self.scene.location[place] != self.at, place))
        name, where = self.scene.name(thing), self.scene.name(place)
        self.go(place, f"to {verb} {name}")
        self._say(f"{verb} {name} with {where}", f"{verb.capitalize()} {name} with {where}")


def solve(state: State) -> list[Step]:
    """Return the shortest plan found from `state`; empty when the goal is reached.

    Raises:
        NoPlanError: the goal can't be reached any more.
    """
    done, needed = state.conditions()
    if done == needed:
        return []
    scene, goal = state.scene, state.scene.goal
    if goal.lamp:
        lamps = sorted(thing for thing in scene.toggleable if scene.object_type.get(thing) == goal.lamp)
        return _best(state, [partial(_look, thing=thing, lamp=lamp) for thing in scene.goal_objects for lamp in lamps])
    if goal.count == 2:
        return _best(state, [partial(_place_two, place=place) for place in scene.goal_receptacles])
    return _best(state, [partial(_place, thing=thing) for thing in scene.goal_objects])


def _best(state: State, ways: list[Callable[[_Draft], None]]) -> list[Step]:
    found: list[Step] | None = None
    problem = NoPlanError("what the goal asks for is not in this scene")
    for way in ways:
        draft = _Draft(state)
        try:
            way(draft)
        except NoPlanError as error:
            problem = error
            continue
        if found is None or len(draft.steps) < len(found):
            found = draft.steps
    if found is None:
        raise problem
    return found


def _look(draft: _Draft, thing: str, lamp: str) -> None:
    draft.take(thing)
    places = draft.state.places(lamp)
    if not places:
        raise NoPlanError(f"{draft.scene.name(lamp)} can't be reached")
    place = min(places, key=lambda place: (draft.scene.location[place] != draft.at, place))
    name = draft.scene.name(lamp)
    draft.go(place, f"where {name} is")
    if lamp not in draft.state.lit:
        draft._say(f"use {name}", f"Turn on {name}")


def _place(draft: _Draft, thing: str) -> None:
    scene, goal = draft.scene, draft.scene.goal
    homes = [place for place in scene.goal_receptacles if scene.fits(thing, place)]
    if not homes:
        raise NoPlanError(f"{scene.name(thing)} fits nowhere that the goal allows")
    if goal.verb and thing not in scene.able[goal.verb]:
        raise NoPlanError(f"{scene.name(thing)} can't be used for this goal: it is nothing to {goal.verb}")
    draft.take(thing)
    if goal.verb:
        draft.prepare(thing, goal.verb)
    draft.put(min(homes, key=draft.effort))


def _place_two(draft: _Draft, place: str) -> None:
    scene = draft.scene
    while sum((thing, place) in draft.inside for thing in scene.goal_objects) < 2:
        if draft.held in scene.goal_objects and scene.fits(draft.held, place):
            draft.put(place)
            continue
        if draft.held is not None:
            draft.drop()
        rest = []
        for thing in scene.goal_objects:
            places = [where for other, where in draft.inside if other == thing and where in scene.location]
            if places and place not in places and scene.fits(thing, place):
                rest.append((min(draft.effort(where) for where in places), thing))
        if not rest:
            raise NoPlanError(f"there are no two objects to put into {scene.name(place)}")
        draft.take(min(rest)[1])


class AlfworldExpert:
    """Plans with the simulator's knowledge, hidden contents included.

    Args:
        state: returns the state of this moment.
    """

    def __init__(self, state: Callable[[], State]) -> None:
        self._state = state

    def plan(self) -> list[str]:
        """The remaining steps in words, one for each command."""
        return [f"{step.words}." for step in solve(self._state())]

    def action(self) -> str:
        """The next command; ``look`` when the goal is reached."""
        steps = solve(self._state())
        return steps[0].command if steps else "look"


def dead_end(state: State) -> bool:
    """Whether the goal is out of reach for good: in ALFWorld, when what is in hand can be put nowhere."""
    if state.held is None or state.scene.homes(state.held):
        return False
    try:
        solve(state)
    except NoPlanError:
        return True
    return False
