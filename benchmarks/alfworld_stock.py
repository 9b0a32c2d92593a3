"""The stock ALFWorld engine, as the packages `textworld` and `alfworld` ship it: what ours is measured against."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from adaplan_envs.alfworld.engine import GOAL_SLOT, package_file
from adaplan_envs.alfworld.world import Game


def stock_env() -> Any:
    """Return a stock environment that gives feedback, admissible commands and `won`."""
    # Importing alfworld creates this folder, by default in the user's home.
    os.environ.setdefault("ALFWORLD_DATA", tempfile.mkdtemp(prefix="alfworld-"))
    import textworld
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
    from textworld.envs.pddl import PddlEnv

    return AlfredDemangler(PddlEnv(textworld.EnvInfos(feedback=True, won=True, admissible_commands=True)))


def game_file(game: Game) -> dict[str, Any]:
    """Return the content of a ``game.tw-pddl`` file."""
    return {
        "pddl_domain": package_file("data/alfred.pddl"),
        "grammar": package_file("data/alfred.twl2").replace(GOAL_SLOT, game.task),
        "pddl_problem": game.problem,
        "solvable": True,
        "walkthrough": list(game.walkthrough) or ["look"],
    }
