"""The guard: no observation gives away what the player has not found out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

_DUMP = 40
"""So many characters in a row of the hidden facts, punctuation and all, are no coincidence."""
_BETWEEN = r"[\W_]*"
_SENTENCE = re.compile(r"[\n;]|[.!?](?:\s|$)")


def _flat(text: str) -> str:
    return " ".join(text.lower().split())


def _pattern(word: str) -> re.Pattern[str]:
    """Match `word` as a whole; a single word also spelt out (``c-r-a-n-e``), as evasive simulators do."""
    word = _flat(word)
    if word.isalpha() and len(word) > 3:
        return re.compile(rf"(?<!\w){_BETWEEN.join(word)}(?!\w)")
    return re.compile(rf"(?<!\w){re.escape(word)}(?!\w)" if word[:1].isalnum() else re.escape(word))


@dataclass(frozen=True)
class Guard:
    """Looks for secrets in observations.

    Attributes:
        secrets: each is some words that must not stand together in one sentence, unless the player has named the last
            of them in an action, or has been told them before.
        hidden: the hidden facts: no long passage of them may be quoted.
        public: what every player is told: rules, goal, first observation.
    """

    secrets: tuple[tuple[str, ...], ...]
    hidden: dict[str, Any]
    public: str

    @cached_property
    def _patterns(self) -> list[tuple[re.Pattern[str], ...]]:
        return [tuple(map(_pattern, secret)) for secret in self.secrets]

    @cached_property
    def _hidden(self) -> str:
        return _flat(json.dumps(self.hidden, ensure_ascii=False, default=str))

    def leaks(self, observation: str, notes: Iterable[str], actions: Iterable[str], seen: Iterable[str]) -> bool:
        """Whether `observation` says more than it may.

        Args:
            observation: what the simulator would tell.
            notes: the simulator's notes, of this turn and of the last.
            actions: what the player did in this episode, this action included.
            seen: what it was told in this episode.
        """
        text = _flat(observation)
        for note in notes:
            if len(note) >= 20 and _flat(note) in text:
                return True
        passages = (text[at : at + _DUMP] for at in range(0, len(text) - _DUMP + 1))
        if quoted := [passage for passage in passages if passage in self._hidden]:
            told = _flat("\n".join([self.public, *seen]))
            if any(passage not in told for passage in quoted):
                return True
        sentences = _sentences(observation)
        named = _flat("\n".join(actions))
        before: list[str] | None = None
        for secret in self._patterns:
            # A word that is spelt out over dots or lines spans what looks like sentences.
            if not _together(secret, [text] if len(secret) == 1 else sentences) or secret[-1].search(named):
                continue
            if before is None:
                before = [sentence for whole in (self.public, *seen) for sentence in _sentences(whole)]
            if not _together(secret, before):
                return True
        return False


def _sentences(text: str) -> list[str]:
    return [_flat(sentence) for sentence in _SENTENCE.split(text)]


def _together(secret: tuple[re.Pattern[str], ...], sentences: Iterable[str]) -> bool:
    return any(all(part.search(sentence) for part in secret) for sentence in sentences)
