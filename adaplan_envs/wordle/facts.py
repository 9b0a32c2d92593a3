"""What a Wordle observation states, however it is worded."""

from __future__ import annotations

import re
from typing import Any

_MARK = re.compile(r"\b([a-z])\b\W{0,4}(?:is )?(green|yellow|gr[ae]y)\b", re.I)
_TRIES = re.compile(r"\b(\d+|no|one|two|three|four|five|six) (?:more )?(?:tries|try|guess(?:es)?|attempts?)\b", re.I)
_NUMBERS = {"no": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}


def read_facts(observation: str) -> dict[str, Any]:
    """Return ``marks`` (such as ``byggb``) of a guess, and ``tries_left``."""
    facts: dict[str, Any] = {}
    found = [colour.lower() for _, colour in _MARK.findall(observation)]
    if len(found) == 5:
        facts["marks"] = "".join({"green": "g", "yellow": "y"}.get(colour, "b") for colour in found)
    if match := _TRIES.search(observation):
        word = match[1].lower()
        facts["tries_left"] = _NUMBERS.get(word) if word in _NUMBERS else int(word)
    return facts
