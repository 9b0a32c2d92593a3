"""What the suite costs: importing it, over bare Gymnasium, and a step of its lightest environments."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from typing import Any

import gymnasium

ROUNDS = 7
STEPS = 5_000
IMPORT_LIMIT = 0.3


def import_seconds(statement: str) -> float:
    """Return how long a fresh process takes for `statement`, the interpreter's own start taken off."""
    code = f"import time; start = time.perf_counter(); {statement}; print(time.perf_counter() - start)"
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def steps_per_second(env_id: str) -> float:
    """Return the median rate at which the expert's commands of the test split are stepped, on one core."""
    env: Any = gymnasium.make(f"adaplan_envs:{env_id}", split="test")
    episodes = []
    for task_id in env.unwrapped.task_ids()[:40]:
        _, info = env.reset(options={"task_id": task_id})
        commands = []
        while info["stop_reason"] is None:
            commands.append(env.unwrapped.expert.action())
            info = env.step(commands[-1])[-1]
        episodes.append((task_id, commands))
    rates = []
    for _ in range(ROUNDS):
        seconds, count = 0.0, 0
        while count < STEPS:
            for task_id, commands in episodes:
                env.reset(options={"task_id": task_id})
                start = time.perf_counter()
                for command in commands:
                    env.step(command)
                seconds += time.perf_counter() - start
                count += len(commands)
        rates.append(count / seconds)
    return statistics.median(rates)


def run() -> list[dict[str, Any]]:
    """Return a row for each measure; the rates have no baseline."""
    pairs = [
        (import_seconds("import gymnasium, adaplan_envs"), import_seconds("import gymnasium")) for _ in range(ROUNDS)
    ]
    over = statistics.median(ours - bare for ours, bare in pairs)
    rows: list[dict[str, Any]] = [
        {"name": "import adaplan_envs over gymnasium, s", "ours": over, "ratio": over / IMPORT_LIMIT, "goal": 1.0}
    ]
    for env_id in ("AdaPlan/Maze-v0", "AdaPlan/Wordle-v0", "AdaPlan/TextCraft-v0", "AdaPlan/IQA-v0"):
        rows.append({"name": f"{env_id} steps/s on one core", "ours": steps_per_second(env_id)})
    return rows


if __name__ == "__main__":
    for row in run():
        limit = f", {row['ratio']:.2f} of the limit" if "ratio" in row else ""
        print(f"{row['name']}: {row['ours']:,.3g}{limit}" if "ratio" in row else f"{row['name']}: {row['ours']:,.0f}")
