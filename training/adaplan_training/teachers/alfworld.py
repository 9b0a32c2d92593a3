"""Someone who does not know where things are, and looks."""

from __future__ import annotations

import random
from copy import copy

from adaplan_envs.alfworld.env import ALFWorldEnv
from adaplan_envs.alfworld.expert import solve
from adaplan_envs.alfworld.world import State
from adaplan_envs.errors import NoPlanError

HUNCH = 0.3
"""How often the next place to look into is the right one. It tells where such things mostly are."""


class AlfworldSearcher:
    """Looks into one receptacle after the other, in the order in which they were described, until a plan is possible.

    What it has seen it remembers; then it does what the expert does.
    """

    def __init__(self, env: ALFWorldEnv, rng: random.Random) -> None:
        self._env, self._rng = env, rng
        self._looked: set[str] = set()

    def action(self) -> str:
        """Return the next command."""
        state = self._env.now()
        scene = state.scene
        here = [place for place, where in scene.location.items() if where == state.at]
        self._looked.update(place for place in here if not state.closed(place))
        known = copy(state)
        known.inside = {(thing, place) for thing, place in state.inside if place in self._looked}
        command = _next(known)
        if command is not None:
            return command
        closed = [place for place in here if state.closed(place)]
        if closed:
            return f"open {scene.name(closed[0])}"
        return self._search(state, here)

    def _search(self, state: State, here: list[str]) -> str:
        scene = state.scene
        order = sorted(map(scene.name, scene.location), key=_as_described)
        left = [name for name in order if scene.find[name] not in self._looked]
        if not left:
            return "look"
        hunch = _next(state) if self._rng.random() < HUNCH else None
        if hunch is not None and hunch.removeprefix("go to ") in left:
            return hunch
        after = max((order.index(scene.name(place)) for place in here), default=-1) + 1
        name = min(left, key=lambda name: (order.index(name) - after) % len(order))
        return f"go to {name}"


def _as_described(name: str) -> tuple[str, int]:
    """Return what the description of a room is sorted by: of each kind, the last comes first."""
    kind, number = name.rsplit(" ", 1)
    return kind, -int(number)


def _next(state: State) -> str | None:
    """Return the first command of the expert's plan, or None where there is no plan."""
    try:
        steps = solve(state)
    except NoPlanError:
        return None
    return steps[0].command if steps else None
