"""BabyAI: primitive actions a second against raw minigrid, which draws its image at every step. Goal: half as fast."""

from __future__ import annotations

import contextlib
import io
import statistics
import time
from collections.abc import Callable
from typing import Any

import gymnasium

from adaplan_envs.babyai.env import BabyAIEnv
from adaplan_envs.core import stable_rng

LEVELS = ("BabyAI-GoToLocal-v0", "BabyAI-GoToObjMazeS7-v0", "BabyAI-SynthLoc-v0", "BabyAI-BossLevel-v0")
ACTIONS = ("turn left", "turn right", "move forward", "pick up", "drop", "toggle", "done")
STEPS, ROUNDS = 250, 5
GOAL = 0.5


def _ours(level: str, seed: int, moves: list[int]) -> float:
    env = BabyAIEnv(actions="primitive")
    task = f"babyai/{level}/{seed:04d}"
    return _timed(moves, lambda: env.reset(options={"task_id": task}), lambda move: env.step(ACTIONS[move]))


def _baseline(level: str, seed: int, moves: list[int]) -> float:
    env = gymnasium.make(level).unwrapped
    return _timed(moves, lambda: env.reset(seed=seed), env.step)


def _timed(moves: list[int], reset: Callable[[], Any], step: Callable[[int], Any]) -> float:
    """Return the seconds that the steps take; resets, which either side does alike, are not counted."""
    with contextlib.redirect_stdout(io.StringIO()):
        reset()
        seconds = 0.0
        for move in moves:
            start = time.perf_counter()
            _, _, terminated, truncated, _ = step(move)
            seconds += time.perf_counter() - start
            if terminated or truncated:
                reset()
    return seconds


def run() -> list[dict[str, Any]]:
    """Return one row a level: steps a second of both, in turn, medians over the rounds."""
    rows = []
    for level in LEVELS:
        ours, baseline = [], []
        for seed in range(ROUNDS):
            moves = stable_rng("bench", level, seed).choices(range(7), k=STEPS)
            ours.append(STEPS / _ours(level, seed, moves))
            baseline.append(STEPS / _baseline(level, seed, moves))
        row = {"name": f"{level} step", "ours": statistics.median(ours), "baseline": statistics.median(baseline)}
        rows.append({**row, "ratio": row["ours"] / row["baseline"], "goal": GOAL})
    return rows


if __name__ == "__main__":
    for row in run():
        print(
            f"{row['name']}: ours {row['ours']:,.0f}/s, baseline {row['baseline']:,.0f}/s, "
            f"ratio {row['ratio']:.2f} (goal {row['goal']})"
        )
