"""Benchmark any agent on the suite: `run_episode`, `evaluate`, `load_run`, `compare`."""

from adaplan_evaluation.comparison import Comparison, compare
from adaplan_evaluation.episode import count_expert_steps, run_episode
from adaplan_evaluation.runner import evaluate, evaluate_async
from adaplan_evaluation.store import Run, load_run
from adaplan_evaluation.types import Episode, Failure, Turn, episode_seed

__all__ = [
    "Comparison",
    "Episode",
    "Failure",
    "Run",
    "Turn",
    "compare",
    "count_expert_steps",
    "episode_seed",
    "evaluate",
    "evaluate_async",
    "load_run",
    "run_episode",
]
