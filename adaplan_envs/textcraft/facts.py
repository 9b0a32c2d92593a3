"""What a TextCraft observation states, however it is worded."""

from __future__ import annotations

import re
from typing import Any

_EVENT = re.compile(r"\b(got|crafted|have)\b:?([^.\n]*)", re.I)
_PART = re.compile(r"(\d+) (?:x )?([a-z][a-z ]*[a-z])", re.I)
_REFUSED = re.compile(
    r"\b(?:not possible|not understood|could not|can ?not|can't|invalid|lack|no recipe|not found)\b", re.I
)


def read_facts(observation: str) -> dict[str, Any]:
    """Return ``got``, ``crafted`` or ``have`` (item -> amount), or ``refused``."""
    if _REFUSED.search(observation):
        return {"refused": True}
    facts: dict[str, Any] = {}
    for verb, rest in _EVENT.findall(observation):
        items = {name.strip().lower(): int(amount) for amount, name in _PART.findall(rest)}
        if items or re.search(r"\bnothing\b", rest, re.I):
            facts[verb.lower()] = items
    return facts
