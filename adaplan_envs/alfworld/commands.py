"""The commands of ALFWorld: what is understood, and why one that is can't be done now."""

from __future__ import annotations

import re
from typing import NamedTuple

from adaplan_envs.alfworld.world import APPLIANCES, State
from adaplan_envs.types import ActionStatus

_FORMS = tuple(
    (verb, re.compile(pattern))
    for verb, pattern in (
        ("look", r"look"),
        ("inventory", r"inventory"),
        ("help", r"help"),
        ("go to", r"go to (.+)"),
        ("open", r"open (.+)"),
        ("close", r"close (.+)"),
        ("examine", r"examine (.+)"),
        ("use", r"use (.+)"),
        ("take", r"take (.+?) from (.+)"),
        ("move", r"(?:move|put) (.+?) (?:to|in/on|in|on) (.+)"),
        ("clean", r"clean (.+?) with (.+)"),
        ("heat", r"heat (.+?) with (.+)"),
        ("cool", r"cool (.+?) with (.+)"),
        ("slice", r"slice (.+?) with (.+)"),
    )
)
_LINK = {"take": "from", "move": "to", "clean": "with", "heat": "with", "cool": "with", "slice": "with"}
KNOWLEDGE = frozenset({"look", "inventory", "help", "examine"})
"""Verbs that change nothing and tell something."""


class Command(NamedTuple):
    """An action as understood.

    Attributes:
        verb: its first word or words in the engine's grammar.
        things: the names that it speaks of.
        text: the whole in the engine's grammar.
        alias: whether it was said in another grammar, ``put X in/on Y``.
    """

    verb: str
    things: tuple[str, ...]
    text: str
    alias: bool


def parse(action: str) -> Command | None:
    """Return the command that `action` (lower case, single blanks) is, or None."""
    for verb, form in _FORMS:
        if found := form.fullmatch(action):
            things = found.groups()
            link = f" {_LINK[verb]} " if verb in _LINK else ""
            text = f"{verb} {link.join(things)}" if things else verb
            return Command(verb, things, text, text != action)
    return None


def refusal(command: Command, state: State) -> tuple[ActionStatus, str]:
    """Return why `command` is not possible now, without telling what the agent has not seen."""
    scene, invalid = state.scene, ActionStatus.INVALID
    ids = [scene.find.get(name) for name in command.things]
    names = [_short(name) for name in command.things]
    if command.verb == "go to":
        if ids[0] not in scene.location:
            return invalid, f"There is no place called {names[0]}."
        return ActionStatus.NO_EFFECT, f"You are already at {names[0]}."
    if command.verb in ("open", "close"):
        if (why := _not_at(ids[0], names[0], state)) is not None:
            return invalid, why
        if ids[0] not in scene.openable:
            return invalid, f"The {names[0]} does not open."
        return (
            ActionStatus.NO_EFFECT,
            f"The {names[0]} is already {'open' if command.verb == 'open' else 'closed'}.",
        )
    if command.verb in ("examine", "use"):
        if command.verb == "use" and ids[0] in state.scene.object_type and _in_sight(ids[0], state):
            return invalid, f"The {names[0]} can't be turned on."
        if ids[0] in scene.receptacle_type:
            return invalid, _not_at(ids[0], names[0], state) or f"The {names[0]} can't be used."
        return invalid, f"You see no {names[0]} here."
    return invalid, _refuse_pair(command.verb, ids, names, state)


def _refuse_pair(verb: str, ids: list[str | None], names: list[str], state: State) -> str:
    scene, (thing, place), (what, where) = state.scene, ids, names
    if verb == "slice":
        if place is None or state.held != place:
            return f"You are not holding {where}."
        if not _in_sight(thing, state):
            return f"You see no {what} here."
        return f"The {what} can't be sliced with {where}."
    if verb == "take" and state.held is not None:
        return f"Your hand is full: you are holding {scene.name(state.held)}."
    if verb != "take" and (thing is None or state.held != thing):
        return f"You are not holding {what}."
    if (why := _not_at(place, where, state)) is not None:
        return why
    assert place is not None
    if verb in ("take", "move") and state.closed(place):
        return f"The {where} is closed."
    if verb == "take":
        if (thing, place) not in state.inside:
            return f"You see no {what} in or on {where}."
        return f"The {what} can't be picked up."
    if verb == "move":
        return f"The {what} does not go in or on {where}."
    if scene.receptacle_type.get(place) != APPLIANCES[verb]:
        return f"You can't {verb} anything with {where}."
    return f"You can't {verb} {what}."


def _not_at(place: str | None, name: str, state: State) -> str | None:
    if place not in state.scene.location:
        return f"There is no place called {name}."
    return None if state.here(place) else f"You are not at {name}."


def _short(name: str) -> str:
    return name if len(name) <= 40 else f"{name[:37]}..."


def _in_sight(thing: str | None, state: State) -> bool:
    if thing is None:
        return False
    return thing == state.held or any(state.here(place) and not state.closed(place) for place in state.places(thing))
