"""A player whose guesses fit all marks."""

from __future__ import annotations

import random

from adaplan_envs.wordle.env import WordleEnv
from adaplan_envs.wordle.expert import solver


class ConsistentSpeller:
    """Opens as the expert does, then guesses any word that fits all marks; letter by letter.

    The expert's choice depends on all the words that are left. That a guess fits can be seen letter by letter, and the
    words that are spelled teach which words there are.
    """

    def __init__(self, env: WordleEnv, rng: random.Random) -> None:
        self._env, self._rng = env, rng

    def action(self) -> str:
        """Return the next guess."""
        pool = solver(self._env.pool, self._env.ruleset == "lmrl")
        if not self._env.history:
            word = pool.words[pool.opening]
        else:
            word = pool.words[self._rng.choice(pool.candidates(self._env.history).tolist())]
        return " ".join(word)
