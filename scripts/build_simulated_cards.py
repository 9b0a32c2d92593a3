"""Freeze tasks of the environments that need extra packages into cards for their simulated twins.

    python scripts/build_simulated_cards.py

Writes adaplan_envs/simulated/data/NAME.jsonl.gz: a head (rules, page, step limit), then one card for each task.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import gymnasium

from adaplan_envs import SUITE, TextEnv
from adaplan_envs.registration import Entry
from adaplan_envs.simulated.twin import manual

FOLDER = Path(__file__).parent.parent / "adaplan_envs" / "simulated" / "data"
SIZES = {"train": 200, "test": None}
"""Tasks of each split; None for all. The real train splits are an order of magnitude larger."""


def cards(entry: Entry, sizes: dict[str, int | None]) -> list[dict[str, Any]]:
    """Return head and cards of an environment."""
    env = gymnasium.make(entry.id).unwrapped
    assert isinstance(env, TextEnv)
    found: list[dict[str, Any]] = [
        {"rules": env.rules, "max_steps": env.max_steps, "manual": manual(type(env).__doc__ or "")}
    ]
    for split, size in sizes.items():
        for task_id in env.task_ids(split)[:size]:
            opening, _ = env.reset(seed=0, options={"task_id": task_id})
            task = env.current_task
            found.append(
                {
                    "split": split,
                    "goal": task.goal,
                    "difficulty": task.difficulty,
                    "opening": opening,
                    "hidden": env.hidden_facts(),
                    "secrets": env.secrets(),
                }
            )
    env.close()
    return found


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for entry in SUITE:
        if entry.extra is None:
            continue
        lines = [json.dumps(card, ensure_ascii=False, separators=(",", ":")) for card in cards(entry, SIZES)]
        path = FOLDER / f"{entry.short_name}.jsonl.gz"
        path.write_bytes(gzip.compress("\n".join(lines).encode(), mtime=0))
        print(f"{path.name}: {len(lines) - 1} tasks, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
