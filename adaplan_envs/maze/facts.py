"""What a MAZE observation states, however it is worded."""

from __future__ import annotations

import re
from typing import Any

_PLACE = r"[^.\d]{0,30}\(?(\d+), ?(\d+)"
_POSITION = re.compile(rf"\b(?:you are|your position|position)\b{_PLACE}", re.I)
_GOAL = re.compile(rf"\bgoal\b{_PLACE}", re.I)
_WALLS = re.compile(r"\bwalls?\b([^.\n]*)", re.I)
_SIDES = ("right", "left", "above", "below")
_REACHED = re.compile(r"\breach(?:ed|es)?\b[^.]*\bgoal\b", re.I)


def read_facts(observation: str) -> dict[str, Any]:
    """Return ``position`` and ``goal`` [row, column], ``walls`` (sides in a fixed order) and ``reached``."""
    facts: dict[str, Any] = {}
    if match := _POSITION.search(observation):
        facts["position"] = [int(match[1]), int(match[2])]
    if match := _GOAL.search(observation):
        facts["goal"] = [int(match[1]), int(match[2])]
    # The last mention: "You bump into a wall" comes before the list.
    if matches := _WALLS.findall(observation):
        named = re.findall(r"[a-z]+", matches[-1].lower())
        facts["walls"] = [side for side in _SIDES if side in named]
    if _REACHED.search(observation):
        facts["reached"] = True
    return facts
