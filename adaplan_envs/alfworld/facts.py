"""What an ALFWorld observation states, however it is worded, and what a simulator of the room must know."""

from __future__ import annotations

import re
from typing import Any

from adaplan_envs.alfworld.world import APPLIANCES, STATES, State

_NAME = re.compile(r"\b([a-z]+ \d+)\b")
_NOTHING = re.compile(r"\bnothing happens\b|\bnot possible\b", re.I)


def read_facts(observation: str) -> dict[str, Any]:
    """Return the names of the ``things`` that are mentioned, sorted; or ``refused``, whatever the reason."""
    if _NOTHING.search(observation):
        return {"refused": True}
    names = sorted(set(_NAME.findall(observation.lower())))
    return {"things": names} if names else {}


def hidden_facts(state: State) -> dict[str, Any]:
    """Return what is where, what opens, and what has to be true in the end."""
    scene, goal = state.scene, state.scene.goal
    receptacles = []
    for place in scene.location:
        if place not in scene.receptacle_type:
            continue
        found: dict[str, Any] = {"name": scene.name(place), "holds": _names(state, place)}
        if place in scene.openable:
            found["open"] = place in state.opened
        receptacles.append(found)
    sought = {"object": goal.object.removesuffix("type"), "count": goal.count}
    if goal.receptacle:
        sought["in_or_on"] = goal.receptacle.removesuffix("type")
    if goal.verb:
        sought["must_be"] = STATES[goal.verb].removeprefix("is")
    if goal.lamp:
        sought["held_beside_lit"] = goal.lamp.removesuffix("type")
    return {
        "receptacles": receptacles,
        "goal": sought,
        "appliances": {verb: kind.removesuffix("type") for verb, kind in APPLIANCES.items()},
        "held": scene.name(state.held) if state.held else None,
    }


def secrets(state: State) -> list[tuple[str, ...]]:
    """Return (object, receptacle) of all that lies about: no secret any more where the player has been."""
    scene = state.scene
    return [
        (name, scene.name(place))
        for place in scene.location
        if place in scene.receptacle_type
        for name in _names(state, place)
    ]


def _names(state: State, place: str) -> list[str]:
    inside = [thing for thing, other in state.inside if other == place and thing in state.scene.entities]
    return sorted(state.scene.name(thing) for thing in inside)
