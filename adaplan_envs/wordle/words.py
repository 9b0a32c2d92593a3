"""The frozen word lists; `data/README.md` says where they come from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from adaplan_envs.errors import ConfigError

LENGTH = 5
TEST, TRAIN = 95, 860
"""Sizes of the splits: the first words of `answers` are the test split, the next the train split."""

_DATA = Path(__file__).parent / "data"


@cache
def answers() -> tuple[str, ...]:
    """Return the common words that can be hidden, in the order that decides which task is which."""
    return tuple((_DATA / "answers.txt").read_text(encoding="ascii").split())


@cache
def guesses() -> frozenset[str]:
    """Return every word that may be guessed: the answers and a wide dictionary."""
    return frozenset((_DATA / "guesses.txt").read_text(encoding="ascii").split()).union(answers())


@cache
def _patterns() -> Counter[str]:
    return Counter(pattern for word in answers() for pattern in _holes(word))


def _holes(word: str) -> list[str]:
    return [f"{word[:i]}_{word[i + 1 :]}" for i in range(LENGTH)]


@cache
def neighbours(word: str) -> int:
    """Return how many other answers differ from the answer `word` in one letter (light: eight, might, night ...)."""
    return sum(_patterns()[pattern] - 1 for pattern in _holes(word))


def check_vocabulary(words: Iterable[str]) -> tuple[str, ...]:
    """Return `words` as a vocabulary, in their order.

    Raises:
        ConfigError: it is empty, or a word is listed twice or is not five letters a-z.
    """
    vocabulary = tuple(words)
    if not vocabulary:
        raise ConfigError("the vocabulary is empty: give at least one five-letter word")
    for word, times in Counter(vocabulary).items():
        if times > 1:
            raise ConfigError(f"the vocabulary lists {word!r} {times} times: give every word once")
        if not is_word(word) or word != word.lower():
            raise ConfigError(f"{word!r} can't be in a vocabulary: a word is five small letters a-z, such as 'crane'")
    return vocabulary


def is_word(text: str) -> bool:
    """Return whether `text` has the form of a guess."""
    return len(text) == LENGTH and text.isascii() and text.isalpha()
