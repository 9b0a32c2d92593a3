"""The expert: guesses the word whose marks tell most about the candidates. It never looks at the hidden word."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from adaplan_envs.errors import NoPlanError
from adaplan_envs.wordle.marking import CODES, SOLVED, code, codes

if TYPE_CHECKING:
    from adaplan_envs.wordle.env import WordleEnv

_CHUNK = 64
"""Guesses that are weighed at once: few enough for the processor's cache."""


class Solver:
    """Chooses guesses from a pool of words, each of which may be the hidden one.

    Args:
        words: the pool.
        naive: whether guesses are marked by `mark_naive` instead of `mark`.
    """

    def __init__(self, words: tuple[str, ...], naive: bool) -> None:
        self.words = words
        self.naive = naive
        self.index = {word: i for i, word in enumerate(words)}

    @cached_property
    def codes(self) -> NDArray[np.uint8]:
        """The marking of every word of the pool (rows) against every other (columns)."""
        return codes(self.words, self.words, self.naive)

    @cached_property
    def opening(self) -> int:
        """The first guess, which is always the same."""
        return self._most_telling(np.arange(len(self.words)), tries=6)

    def candidates(self, history: list[tuple[str, str]]) -> NDArray[np.intp]:
        """Return the words (as indices) that fit the guesses and marks so far."""
        fits = np.ones(len(self.words), bool)
        for guess, marks in history:
            known = self.index.get(guess)  # None for a word from the wide list
            row = codes([guess], self.words, self.naive)[0] if known is None else self.codes[known]
            fits &= row == code(marks)
        return np.flatnonzero(fits)

    def choose(self, candidates: NDArray[np.intp], tries: int) -> int:
        """Return the next guess (an index) for these candidates and that many tries left."""
        if len(candidates) == len(self.words) and tries > 2:
            return self.opening
        if tries == 1 or len(candidates) <= 2:
            return int(candidates[0])
        return self._most_telling(candidates, tries)

    def _most_telling(self, candidates: NDArray[np.intp], tries: int) -> int:
        # Entropy of the marks; with two tries left the number of different marks, since then only a word that is
        # alone with its marks is certain to be found.
        n = len(candidates)
        value = np.empty(len(self.words))
        costs = np.arange(n + 1) * np.log2(np.maximum(np.arange(n + 1), 1))
        for start in range(0, len(self.words), _CHUNK):
            rows = self.codes[start : start + _CHUNK, candidates].astype(np.intp)
            rows += np.arange(0, len(rows) * CODES, CODES)[:, None]
            sizes = np.bincount(rows.ravel(), minlength=len(rows) * CODES).reshape(-1, CODES)
            if tries == 2:
                value[start : start + _CHUNK] = (sizes > 0).sum(axis=1)
            else:
                value[start : start + _CHUNK] = np.log2(n) - costs[sizes].sum(axis=1) / n
        # A guess that may be the hidden word itself saves a try in one case of n.
        value[candidates] += 1 / n
        return int(np.argmax(np.round(value, 9)))


@lru_cache(maxsize=4)
def solver(words: tuple[str, ...], naive: bool) -> Solver:
    """Return the `Solver` for a pool; its tables are computed once in a process, when first needed."""
    return Solver(words, naive)


class WordleExpert:
    """An information-gain player. It sees what any player sees: the guesses, their marks and the list of answers."""

    def __init__(self, env: WordleEnv) -> None:
        self._env = env

    def action(self) -> str:
        """Return the next guess.

        Raises:
            NoPlanError: the game is over.
        """
        solver, candidates, tries = self._situation()
        return solver.words[solver.choose(candidates, tries)]

    def plan(self) -> list[str]:
        """Return the next guess and what to do after it, supposing that the likeliest marks come; empty when solved.

        Raises:
            NoPlanError: the game is lost.
        """
        if self._env.solved:
            return []
        solver, candidates, tries = self._situation()
        steps = []
        for left in range(tries, 0, -1):
            guess = solver.choose(candidates, left)
            marks = solver.codes[guess, candidates]
            sizes = np.bincount(marks, minlength=CODES)
            sizes[code(SOLVED)] = 0
            word = solver.words[guess]
            if left == tries:
                steps.append(
                    f"Guess {word}, the only word that fits."
                    if len(candidates) == 1
                    else f"Guess {word} to split the {len(candidates)} words that fit."
                )
            elif len(candidates) == 1 or left == 1:
                steps.append("Guess a word that fits all marks so far.")
            else:
                steps.append("Rule out the words that contradict the marks, then guess the word that splits the rest.")
            if not sizes.any():
                break
            candidates = candidates[marks == sizes.argmax()]
        return steps

    def _situation(self) -> tuple[Solver, NDArray[np.intp], int]:
        env = self._env
        tries = env.tries_left
        if env.solved or not tries:
            raise NoPlanError("the game is over: call reset() for another one")
        pool = solver(env.pool, env.ruleset == "lmrl")
        return pool, pool.candidates(env.history), tries
