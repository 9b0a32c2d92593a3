"""What agent and runner cost on top of the environment: 64 episodes at once, a scripted model that answers at once.

`python benchmarks/bench_runner.py` prints milliseconds per step beyond those of the bare environment; the limit is 0.5.
"""

from __future__ import annotations

import gc
import statistics
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import gymnasium

from adaplan_agents import ScriptedModel
from adaplan_evaluation import Run, evaluate

EPISODES, STEPS, ROUNDS = 64, 30, 5
LIMIT_MS = 0.5
ANSWERS = ("Thought: The way down may be open.\nAction: move down", "Thought: Then to the left.\nAction: move left")


def answer(messages: list[dict[str, str]]) -> str:
    """Write a plan where one is asked for, else go to and fro."""
    if "plan" in messages[-1]["content"].lower():
        return "Plan:\n1. Go down.\n2. Go left."
    return ANSWERS[len(messages) % 2]


def bare(run: Run) -> float:
    """Return the seconds that the environment alone needs for the same actions."""
    env = gymnasium.make("AdaPlan/Maze-v0", split="test", max_steps=STEPS)
    seconds = 0.0
    for episode in run.episodes:
        actions = [turn.action for turn in episode.turns]
        start = perf_counter()
        env.reset(seed=episode.seed, options={"task_id": episode.task_id})
        for action in actions:
            env.step(action)
        seconds += perf_counter() - start
    return seconds


def measure(agent: str, out: Path | None) -> float:
    """Return the milliseconds per step that agent and runner add."""
    model = ScriptedModel(answer)
    gc.collect()
    start = perf_counter()
    run = evaluate(agent, "maze", model=model, episodes=EPISODES, concurrency=EPISODES, max_steps=STEPS, out=out)
    seconds = perf_counter() - start
    steps = sum(episode.steps for episode in run.episodes)
    assert steps > EPISODES * STEPS / 2, "the episodes are long enough to tell"
    return 1000 * (seconds - bare(run)) / steps


def run() -> list[dict[str, Any]]:
    """Return the figures, medians over rounds; everything counts: start, summary, and writing where there is some."""
    rows = []
    for name, agent, written in [
        ("ReAct, in memory", "react", False),
        ("ReAct, on disk", "react", True),
        ("AdaPlan, on disk", "adaplan", True),
    ]:
        with tempfile.TemporaryDirectory() as folder:
            added = [measure(agent, Path(folder) / str(k) if written else None) for k in range(ROUNDS)]
        ours = statistics.median(added)
        rows.append(
            {
                "name": f"agent and runner, 64 episodes at once, ms/step added ({name})",
                "ours": ours,
                "baseline": LIMIT_MS,
                "ratio": ours / LIMIT_MS,
                "goal": 1.0,
            }
        )
    return rows


if __name__ == "__main__":
    for row in run():
        print("{name}: ours {ours:.3f}, baseline {baseline}, ratio {ratio:.2f} (goal at most {goal})".format(**row))
