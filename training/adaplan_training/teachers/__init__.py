"""Teachers to imitate: they decide from what the player could know, so that a policy without the simulator can follow.

An environment's expert may see the whole simulator. What it does with that knowledge can't be learnt, and to imitate it
teaches a policy to guess. Here is who looks for what isn't in sight. Experts that see no more than the player, those of
TextCraft and Wordle, need no such teacher, and BabyAI has none yet; there the expert teaches, in Wordle with more
variety.
"""

from __future__ import annotations

import random
from typing import Any, Protocol

from adaplan_envs.core import TextEnv
from adaplan_training.teachers.alfworld import AlfworldSearcher
from adaplan_training.teachers.iqa import HastyExplorer
from adaplan_training.teachers.maze import LeastVisited
from adaplan_training.teachers.wordle import ConsistentSpeller


class Teacher(Protocol):
    """Gives one command after the other in one episode; what is played may be another."""

    def action(self) -> str:
        """Return the next command, from the state that the episode is in now."""
        ...


_TEACHERS: dict[str, Any] = {
    "alfworld": AlfworldSearcher,
    "iqa": HastyExplorer,
    "maze": LeastVisited,
    "wordle": ConsistentSpeller,
}


def make_teacher(env: TextEnv, rng: random.Random) -> Teacher:
    """Return the teacher of an environment in which an episode was just begun; without one, its expert.

    Args:
        env: where the episode is played.
        rng: of the teacher's choices where several are as good.
    """
    kind = _TEACHERS.get(env.name)
    teacher: Teacher = env.expert if kind is None else kind(env, rng)
    return teacher


__all__ = ["AlfworldSearcher", "ConsistentSpeller", "HastyExplorer", "LeastVisited", "Teacher", "make_teacher"]
