"""The recorded official games of ALFWorld."""

from __future__ import annotations

from typing import Any

from adaplan_envs.alfworld.world import Game


def official_games(recorded: Any) -> list[Game]:
    """Return them as games; `recorded` is the fixture."""
    return [
        Game(row["pddl_problem"], row["task"].rstrip("."), tuple(row["walkthrough"]), 0, 0, 0)
        for row in recorded("alfworld/official_games.jsonl.gz")
    ]
