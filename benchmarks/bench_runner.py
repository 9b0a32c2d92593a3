"""What agent and runner cost on top of the environment: 64 episodes at once, a model that answers at once.

`python benchmarks/bench_runner.py` prints milliseconds of processor time per step beyond those of the bare environment;
the limit is 0.5. Processor time, because it is the same on a busy machine; the wait for the disk, once an episode, is a
line of its own.
"""

from __future__ import annotations

import gc
import statistics
import tempfile
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import gymnasium

from adaplan_agents.models import ChatReply, Conversation, Model, Provenance, Sampling, Usage
from adaplan_evaluation import Run, evaluate
from adaplan_evaluation.store import EpisodeLog

EPISODES, STEPS, ROUNDS = 64, 30, 5
LIMIT_MS = 0.5
ANSWERS = ("Thought: The way down may be open.\nAction: move down", "Thought: Then to the left.\nAction: move left")


class Instant(Model):
    """Answers at once and counts nothing, so that only agent and runner are measured."""

    name = "instant"

    def open(self, system: str = "") -> Conversation:
        return InstantConversation(system)


class InstantConversation(Conversation):
    """Writes a plan where one is asked for, else goes to and fro."""

    async def _sample(self, sampling: Sampling, provenance: Provenance) -> ChatReply:
        if provenance is Provenance.PLANNER:
            return ChatReply("1. Go down.\n2. Go left.", Usage(100, 10, 1))
        return ChatReply(ANSWERS[len(self.messages) % 4 // 2], Usage(100, 10, 1))

    def _fork(self) -> InstantConversation:
        return InstantConversation()


def bare(run: Run) -> float:
    """Return the seconds that the environment alone needs for the same actions."""
    env = gymnasium.make("AdaPlan/Maze-v0", split="test", max_steps=STEPS)
    seconds = 0.0
    for episode in run.episodes:
        actions = [turn.action for turn in episode.turns]
        start = process_time()
        env.reset(seed=episode.seed, options={"task_id": episode.task_id})
        for action in actions:
            env.step(action)
        seconds += process_time() - start
    return seconds


def measure(agent: str, out: Path) -> tuple[float, Run]:
    """Return the milliseconds per step that agent and runner add, and the run."""
    gc.collect()
    start = process_time()
    run = evaluate(agent, "maze", model=Instant(), episodes=EPISODES, concurrency=EPISODES, max_steps=STEPS, out=out)
    seconds = process_time() - start
    steps = sum(episode.steps for episode in run.episodes)
    assert steps > EPISODES * STEPS / 2, "the episodes are long enough to tell"
    return 1000 * (seconds - bare(run)) / steps, run


def append(run: Run, out: Path) -> float:
    """Return the milliseconds of wall-clock time per step that it takes to write and sync the episodes of `run`."""
    log = EpisodeLog(out)
    start = perf_counter()
    for episode in run.episodes:
        log.append(episode)
    seconds = perf_counter() - start
    log.close()
    return 1000 * seconds / sum(episode.steps for episode in run.episodes)


def row(what: str, figures: list[float]) -> dict[str, Any]:
    """Return one line of the table: the median of `figures` against the limit."""
    ours = statistics.median(figures)
    return {"name": what, "ours": ours, "baseline": LIMIT_MS, "ratio": ours / LIMIT_MS, "goal": 1.0}


def run() -> list[dict[str, Any]]:
    """Return the figures, medians over rounds. Everything counts: start, expert, summary."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for label, agent in [("ReAct", "react"), ("AdaPlan", "adaplan")]:
            rounds = [measure(agent, Path(folder) / f"{agent}{k}") for k in range(ROUNDS + 1)][1:]
            rows.append(row(f"{label} and runner, 64 episodes at once, ms/step added", [added for added, _ in rounds]))
        writes = [append(played, Path(folder) / f"log{k}") for k, (_, played) in enumerate(rounds)]
        rows.append(row("writing and syncing episodes, ms/step of wall clock", writes))
    return rows


if __name__ == "__main__":
    for line in run():
        print("{name}: ours {ours:.3f}, baseline {baseline}, ratio {ratio:.2f} (goal at most {goal})".format(**line))
