"""Runs against each other, task by task."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from adaplan_envs.errors import ConfigError
from adaplan_envs.types import StopReason
from adaplan_evaluation.metrics import Floats, Interval, doubt, interval, resample
from adaplan_evaluation.store import Run, load_run

METRICS = ("success_rate", "score")


@dataclass(frozen=True, slots=True)
class Row:
    """Two runs on the tasks that both have played.

    Attributes:
        env_id: Gymnasium id, or ``overall`` for the mean over environments.
        metric: ``success_rate`` or ``score``.
        pairs: tasks in both.
        first, second: the means of either run over these tasks.
        difference: second minus first, with its 95% bootstrap interval over tasks.
        better, worse: tasks on which the second run did better, and worse.
    """

    env_id: str
    metric: str
    pairs: int
    first: float
    second: float
    difference: Interval
    better: int
    worse: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """The outcome of `compare`.

    Attributes:
        first, second: names of the runs.
        rows: one for each environment and metric, then the means over environments.
        only_first, only_second: number of tasks that only one of them has an episode of (errors do not count as one).
        notes: settings that differ, apart from the agent.
    """

    first: str
    second: str
    rows: list[Row]
    only_first: int
    only_second: int
    notes: list[str]


def compare(first: Run | str | Path, second: Run | str | Path) -> Comparison:
    """Compare two runs on the tasks that both have played: the second minus the first.

    A task's value is its mean over the repeats that did not end as error. Where all tasks differ by the same amount
    (all solved by both, say) the bootstrap has no width; its draws then get the doubt of Beta(1, tasks) in both
    directions, about 3 / tasks.

    Raises:
        ConfigError: they have no task in common, or one is no run.
    """
    one, two = (run if isinstance(run, Run) else load_run(run) for run in (first, second))
    means_one, means_two = _task_means(one), _task_means(two)
    shared = sorted(means_one.keys() & means_two.keys())
    if not shared:
        raise ConfigError(f"{one.name} and {two.name} have no task in common")
    by_env: dict[str, list[tuple[Floats, Floats]]] = defaultdict(list)
    for key in shared:
        by_env[key[0]].append((means_one[key], means_two[key]))
    rows = [
        row
        for column, metric in enumerate(METRICS)
        for row in _rows(metric, {env_id: np.array(pairs)[:, :, column] for env_id, pairs in by_env.items()})
    ]
    return Comparison(
        one.name,
        two.name,
        rows,
        len(means_one.keys() - means_two.keys()),
        len(means_two.keys() - means_one.keys()),
        _notes(one, two),
    )


def _rows(metric: str, values: dict[str, Floats]) -> list[Row]:
    rows, all_draws = [], []
    for env_id, values_T2 in values.items():
        difference_T = values_T2[:, 1] - values_T2[:, 0]
        pairs = len(difference_T)
        if np.ptp(difference_T) == 0:
            swing_D = doubt(pairs, "better", metric, env_id) - doubt(pairs, "worse", metric, env_id)
            draws_D = np.clip(difference_T[0] + swing_D, -1, 1)
        else:
            draws_D = resample(difference_T[:, None], "compare", metric, env_id)[:, 0] / pairs
        all_draws.append(draws_D)
        rows.append(
            Row(
                env_id,
                metric,
                pairs,
                float(values_T2[:, 0].mean()),
                float(values_T2[:, 1].mean()),
                interval(float(difference_T.mean()), draws_D, pairs),
                int((difference_T > 0).sum()),
                int((difference_T < 0).sum()),
            )
        )
    if len(rows) > 1:
        mean = float(np.mean([row.difference.value or 0.0 for row in rows]))
        pairs = sum(row.pairs for row in rows)
        rows.append(
            Row(
                "overall",
                metric,
                pairs,
                float(np.mean([row.first for row in rows])),
                float(np.mean([row.second for row in rows])),
                interval(mean, np.mean(all_draws, axis=0), pairs),
                sum(row.better for row in rows),
                sum(row.worse for row in rows),
            )
        )
    return rows


def _task_means(run: Run) -> dict[tuple[str, str], Floats]:
    values: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for episode in run.episodes:
        if episode.stop_reason is not StopReason.ERROR:
            values[episode.env_id, episode.task_id].append((float(episode.success), episode.score))
    return {key: np.mean(some, axis=0) for key, some in values.items()}


def _notes(one: Run, two: Run) -> list[str]:
    keys: Sequence[str] = ("repeats", "seed", "max_steps", "env_settings", "deadline", "token_budget")
    first, second = one.results["config"], two.results["config"]
    notes = [f"{key}: {first[key]!r} and {second[key]!r}" for key in keys if first[key] != second[key]]
    for run in (one, two):
        if not run.results["complete"]:
            notes.append(f"{run.name} is not complete")
    return notes
