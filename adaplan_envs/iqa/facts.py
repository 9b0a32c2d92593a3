"""What an IQA observation states, however it is worded, and what a simulator of the house must know."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from adaplan_envs.iqa.scene import FURNITURE, OBJECTS, Problem, Scene
from adaplan_envs.iqa.sight import CELL, HEADINGS, STRIDE, cells

_FACE = re.compile(rf"\bfac(?:e|ing)\W+({'|'.join(HEADINGS)})\b", re.I)
_CLEAR = re.compile(r"\bclear for (\d+(?:\.\d+)?) ?m\b", re.I)
_THING = re.compile(rf"\b((?:{'|'.join((*OBJECTS, *FURNITURE, 'doorway'))}) \d+)\b", re.I)
_WAY = re.compile(r"\b(?:in the way|right ahead|blocked)\b", re.I)
_END = re.compile(r"\bis (right|wrong)\b", re.I)


def read_facts(observation: str) -> dict[str, Any]:
    """Return ``facing``, ``clear`` (metres), ``things`` in view (sorted), ``blocked`` and ``right`` (of an answer)."""
    facts: dict[str, Any] = {}
    if match := _FACE.search(observation):
        facts["facing"] = match[1].lower()
        facts["things"] = sorted({name.lower() for name in _THING.findall(observation)})
    if match := _CLEAR.search(observation):
        facts["clear"] = float(match[1])
    if _WAY.search(observation):
        facts["blocked"] = True
    if match := _END.search(observation):
        facts["right"] = match[1].lower() == "right"
    return facts


def hidden_facts(problem: Problem, view_range: float, view_angle: float) -> dict[str, Any]:
    """Return the house as a map and a list of what is where, the player's pose, and the right answer."""
    scene = problem.scene
    places = [
        {
            "kind": place.kind,
            "cells": _positions(cells(place.cells)),
            "opens": FURNITURE[place.kind].opens,
            "blocks_sight": FURNITURE[place.kind].tall,
            "holds": [
                {"kind": item.kind, **({} if item.cell is None else {"cell": _position(item.cell)})}
                for item in scene.items
                if item.place == number
            ],
        }
        for number, place in enumerate(scene.places)
    ]
    return {
        "map": _map(scene),
        "legend": "# wall, . floor, + doorway, letters: receptacles in the order of the list; rows run south",
        "cell_size_m": CELL,
        "receptacles": places,
        "player": {"cell": _position(scene.start), "facing": HEADINGS[scene.heading]},
        "view": {"range_m": view_range, "angle_degrees": view_angle},
        "right_answer": problem.answer,
    }


def _position(cell: int) -> list[int]:
    return [cell % STRIDE, cell // STRIDE]


def _positions(numbers: Iterable[int]) -> list[list[int]]:
    return [_position(number) for number in numbers]


def _map(scene: Scene) -> list[str]:
    whole = scene.walls | scene.floor
    width = 1 + max(cell % STRIDE for cell in cells(whole))
    height = 1 + max(cell // STRIDE for cell in cells(whole))

    def mark(bit: int) -> str:
        for number, place in enumerate(scene.places):
            if place.cells & bit:
                return chr(ord("a") + number)
        if any(doorway & bit for doorway in scene.doorways):
            return "+"
        return "#" if scene.walls & bit else "." if scene.floor & bit else " "

    return ["".join(mark(1 << (y * STRIDE + x)) for x in range(width)) for y in range(height)]
