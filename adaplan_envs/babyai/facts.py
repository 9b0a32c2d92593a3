"""What a BabyAI observation states, however it is worded, and what a simulator of the grid must know."""

from __future__ import annotations

import re
from typing import Any

from adaplan_envs.babyai.view import door_state, kind

_HEADINGS = ("right", "down", "left", "up")
_THING = re.compile(
    r"\b((?:red|green|blue|purple|yellow|grey) (?:(?:open|closed|locked) )?(?:door|key|ball|box) \d+)\b"
    r"(?:[ (:]{1,3}(?:(\d+) (?:steps? )?ahead)?(?:(?:,| and)? ?(\d+) (?:steps? )?(?:to the )?(left|right))?)?",
    re.I,
)
_AHEAD = re.compile(r"\bahead: (?:(wall|door|key|ball|box), (\d+) step|(free))", re.I)
_HAND = re.compile(r"\b(?:in hand|carrying|you carry|holding):? (nothing|[a-z]+ [a-z]+(?: \d+)?)", re.I)


def read_facts(observation: str) -> dict[str, Any]:
    """Return ``visible`` ([name, steps ahead, steps right], sorted), ``facing`` and ``carrying``."""
    facts: dict[str, Any] = {}
    sight, _, _ = observation.partition("\nAhead:")
    if things := _THING.findall(sight):
        facts["visible"] = sorted(
            [name.lower(), int(ahead or 0), int(aside or 0) * (-1 if side.lower() == "left" else 1)]
            for name, ahead, aside, side in things
        )
    elif "no objects" in observation.lower():
        facts["visible"] = []
    if match := _AHEAD.search(observation):
        facts["facing"] = None if match[3] else [match[1].lower(), int(match[2])]
    if match := _HAND.search(observation):
        facts["carrying"] = None if match[1].lower() == "nothing" else match[1].lower()
    return facts


def hidden_facts(level: Any) -> dict[str, Any]:
    """Return the grid with all that is in it and the player's pose; positions are x, y from the top left."""
    rows, things = [], []
    for y in range(level.height):
        row = ""
        for x in range(level.width):
            thing = level.grid.get(x, y)
            row += "#" if thing is not None and thing.type == "wall" else "."
            if thing is None or thing.type == "wall":
                continue
            found = {"name": kind(thing), "at": [x, y]}
            if thing.type == "door":
                found["state"] = door_state(thing)
            if thing.type == "box" and thing.contains is not None:
                found["contains"] = kind(thing.contains)
            things.append(found)
        rows.append(row)
    return {
        "mission": str(level.mission),
        "grid": rows,
        "legend": "# wall, . anything else; y grows downwards",
        "things": things,
        "player": {
            "at": [int(level.agent_pos[0]), int(level.agent_pos[1])],
            "facing": _HEADINGS[int(level.agent_dir)],
            "carrying": kind(level.carrying) if level.carrying is not None else None,
        },
        "budget_of_primitive_actions": int(level.max_steps),
    }
