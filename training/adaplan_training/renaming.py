"""Demonstrations in which things have one another's names.

Who learns from a few hundred tasks learns their things by heart: that a bed takes wool. Where in every episode a bed is
called something else, only what the player is told helps, and that is what must be learnt (compare domain
randomisation, Tobin et al. 2017, arXiv 1703.06907).
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Set
from dataclasses import replace
from functools import cache

from adaplan_envs.errors import ConfigError
from adaplan_training.transcripts import Transcript

_WORD = re.compile("[a-z]+")
_GRAMMAR = {"a", "and", "item", "o", "of", "on", "the"}
"""Words of names that are words of sentences, too."""


def _alfworld() -> set[str]:
    from adaplan_envs.alfworld.generator import LAMP, tables

    return {thing.lower() for scene in tables()["scenes"] for thing in scene["objects"] if thing != LAMP}


def _textcraft() -> set[str]:
    from adaplan_envs.textcraft.names import every_name
    from adaplan_envs.textcraft.recipes import load_book

    return {word for name in every_name(load_book()) for word in _WORD.findall(name)} - _GRAMMAR


_NAMES: dict[str, Callable[[], set[str]]] = {"alfworld": _alfworld, "textcraft": _textcraft}
"""Environment -> the words that name its things and say nothing else."""


@cache
def names_of(env: str) -> frozenset[str]:
    """Return the words that may be exchanged in an environment.

    Raises:
        ConfigError: it has no such words.
    """
    if env not in _NAMES:
        raise ConfigError(f"{env} has no names to exchange; rename is for {' and '.join(_NAMES)}")
    return frozenset(_NAMES[env]())


def renamed(transcript: Transcript, names: Set[str], rng: random.Random) -> Transcript:
    """Return a conversation with the names in it exchanged among each other, the same throughout.

    Its exact tokens are dropped, they say something else now.

    Args:
        transcript: the conversation.
        names: words, from `names_of`.
        rng: draws which name gets which.
    """
    said = {word for message in transcript.messages for word in _WORD.findall(message["content"])}
    found = sorted(said & names)
    others = dict(zip(found, rng.sample(found, len(found)), strict=True))

    def exchange(text: str) -> str:
        return _WORD.sub(lambda word: others.get(word[0], word[0]), text)

    messages = tuple({**message, "content": exchange(message["content"])} for message in transcript.messages)
    return replace(transcript, messages=messages, about={**transcript.about, "renamed": True}, tokens=None)
