"""An explorer who soon answers."""

from __future__ import annotations

import random

from adaplan_envs.iqa.env import IQAEnv

PATIENCE = 8
"""Commands before the answer. On the test split, what was seen by then settles 73% of the questions, and after 20
commands 87%."""


class HastyExplorer:
    """Explores as the expert does, and after a few commands gives the right answer, whatever has been seen.

    Who imitates that learns how likely each answer is after what it saw.
    """

    def __init__(self, env: IQAEnv, rng: random.Random) -> None:
        self._env = env
        self._left = PATIENCE

    def action(self) -> str:
        """Return the next command."""
        self._left -= 1
        return self._env.expert.action() if self._left >= 0 else f"answer {self._env.current_task.data.answer}"
