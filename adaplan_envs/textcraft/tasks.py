"""Which goal a TextCraft task stands for."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files

from adaplan_envs.core import stable_rng
from adaplan_envs.textcraft.recipes import load_book, words

SIZES = {"train": 400, "test": 74, "agentgym": 374}
"""The first two are those of PilotRL (Table 5). AgentGym has 544 indices, of which 374 are known."""


@cache
def goals(split: str) -> tuple[str, ...]:
    """Return the goals of a split in order. ``train`` and ``test`` have none in common."""
    if split == "agentgym":
        return tuple(map(words, _agentgym().values()))
    everything = list(load_book().goals)
    stable_rng("textcraft splits").shuffle(everything)
    start = SIZES["test"] if split == "train" else 0
    return tuple(everything[start : start + SIZES[split]])


@cache
def agentgym_indices() -> tuple[int, ...]:
    """Return AgentGym's own index of each task of the split ``agentgym``."""
    return tuple(map(int, _agentgym()))


@cache
def _agentgym() -> dict[str, str]:
    path = files("adaplan_envs.textcraft") / "data" / "agentgym_goals.json"
    found: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
    return found
