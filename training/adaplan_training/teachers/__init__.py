"""Teachers to imitate: they decide from what the player could know, so that a policy without the simulator can follow.

An environment's expert may see the whole simulator. What it does with that knowledge can't be learnt, and to imitate it
teaches a policy to guess. Here is who looks for what isn't in sight. Experts that see no more than the player, those of
TextCraft and Wordle, need no such teacher, and BabyAI has none yet; there the expert teaches, in Wordle with more
variety.
"""

from __future__ import annotations

import random
from importlib import import_module
from typing import Protocol

from adaplan_envs.core import TextEnv


class Teacher(Protocol):
    """Gives one command after the other in one episode; what is played may be another."""

    def action(self) -> str:
        """Return the next command, from the state that the episode is in now."""
        ...


_TEACHERS = {
    "alfworld": "AlfworldSearcher",
    "iqa": "HastyExplorer",
    "maze": "LeastVisited",
    "wordle": "ConsistentSpeller",
}
"""Environment, which its module here is called after too -> class. Imported when needed: they import the simulators."""


def make_teacher(env: TextEnv, rng: random.Random) -> Teacher:
    """Return the teacher of an environment in which an episode was just begun; without one, its expert.

    Args:
        env: where the episode is played.
        rng: of the teacher's choices where several are as good.
    """
    if env.name not in _TEACHERS:
        return env.expert
    kind = getattr(import_module(f"{__name__}.{env.name}"), _TEACHERS[env.name])
    teacher: Teacher = kind(env, rng)
    return teacher
