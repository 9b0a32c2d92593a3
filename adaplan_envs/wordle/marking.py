"""How a guess is marked: ``g`` right letter in the right place, ``y`` elsewhere in the word, ``b`` not in the word.

Once for a pair of words, in plain Python, which the environment plays by; once for many pairs, in numpy, which the
expert thinks with. A test holds the two together.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adaplan_envs.wordle.words import LENGTH

SOLVED: Final = "g" * LENGTH
CODES: Final = 3**LENGTH
"""Number of different markings; as a code, a marking is a number in base 3 (b=0, y=1, g=2), first letter first."""


@lru_cache(maxsize=2**14)  # training plays the same words again and again
def mark(guess: str, hidden: str) -> str:
    """Mark as the official game does: a letter is marked as often as the hidden word has it, greens first."""
    marks = ["b"] * LENGTH
    rest = []
    for i, letter in enumerate(hidden):
        if guess[i] == letter:
            marks[i] = "g"
        else:
            rest.append(letter)
    for i, letter in enumerate(guess):
        if letter in rest and marks[i] == "b":
            marks[i] = "y"
            rest.remove(letter)
    return "".join(marks)


def mark_naive(guess: str, hidden: str) -> str:
    """Mark as LMRL-Gym does: every letter on its own, however often the hidden word has it."""
    return "".join(
        ["g" if a == b else "y" if a in hidden else "b" for a, b in zip(guess, hidden, strict=True)],
    )


def code(marks: str) -> int:
    """Return the code of a marking: ``bbbbb`` is 0, ``ggggg`` 242."""
    return int(marks.translate(_DIGITS), 3)


_DIGITS = str.maketrans("byg", "012")


def codes(guesses: Sequence[str], hidden: Sequence[str], naive: bool = False) -> NDArray[np.uint8]:
    """Return the code of the marking of every guess (rows) against every hidden word (columns)."""
    result = np.empty((len(guesses), len(hidden)), np.uint8)
    right = _letters(hidden)[None]
    step = 64  # keeps the working arrays in the processor's cache
    for start in range(0, len(guesses), step):
        marks = _mark_naive if naive else _mark
        result[start : start + step] = marks(_letters(guesses[start : start + step])[:, None], right)
    return result


def _letters(words: Sequence[str]) -> NDArray[np.uint8]:
    return np.frombuffer("".join(words).encode("ascii"), np.uint8).reshape(len(words), LENGTH)


def _mark(guess: NDArray[np.uint8], hidden: NDArray[np.uint8]) -> NDArray[np.uint8]:
    green = [guess[..., i] == hidden[..., i] for i in range(LENGTH)]
    free: list[Any] = [~hit for hit in green]  # letters of the hidden word that no mark accounts for yet
    total = np.zeros(green[0].shape, np.uint8)
    for i in range(LENGTH):
        yellow = np.zeros_like(green[i])
        for j in range(LENGTH):
            if i != j:
                hit = (guess[..., i] == hidden[..., j]) & free[j] & ~green[i] & ~yellow
                yellow |= hit
                free[j] &= ~hit
        total = total * np.uint8(3) + yellow + (green[i].view(np.uint8) << 1)
    return total


def _mark_naive(guess: NDArray[np.uint8], hidden: NDArray[np.uint8]) -> NDArray[np.uint8]:
    total = np.zeros(np.broadcast_shapes(guess.shape[:-1], hidden.shape[:-1]), np.uint8)
    for i in range(LENGTH):
        letter = guess[..., i]
        inside = np.any([letter == hidden[..., j] for j in range(LENGTH)], axis=0)
        total = total * np.uint8(3) + inside + (letter == hidden[..., i])
    return total
