"""From episodes to rates with intervals.

Conventions, the same everywhere:

- Episodes that ended as error are in no rate and in no mean; `errors` counts them. Their cost is in `cost`: it was
  paid.
- Rates of actions and turns are pooled: invalid actions over all actions, not a mean of rates of episodes.
- Steps over the expert's steps is a mean over solved episodes only.
- Intervals are 95% percentile bootstrap intervals over tasks: the repeats of a task stay together. Where a success rate
  is 0 or 1 the bootstrap would have no width; its draws then come from Beta(1, tasks), whose bound is the exact
  binomial one (0 of 20 solved: up to 0.17).
- Averages over environments give each the same weight.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from adaplan_envs.core import stable_rng
from adaplan_envs.types import ActionStatus, StopReason
from adaplan_evaluation.suite import IN_DOMAIN, OUT_OF_DOMAIN
from adaplan_evaluation.types import Episode

Floats = npt.NDArray[np.float64]

DRAWS = 5_000
_CHUNK = 250
_CAUSES = 5

RATIOS: dict[str, tuple[str, str]] = {
    "success_rate": ("successes", "episodes"),
    "score": ("score", "episodes"),
    "steps": ("actions", "episodes"),
    "expert_ratio": ("ratio", "ratios"),
    "invalid_rate": ("invalid", "actions"),
    "format_rate": ("well_formed", "actions"),
    "prompt_tokens": ("prompt_tokens", "episodes"),
    "completion_tokens": ("completion_tokens", "episodes"),
    "seconds": ("seconds", "episodes"),
}
"""Metric -> the column that is summed, and the one that it is divided by."""

_COLUMNS = tuple(dict.fromkeys(column for pair in RATIOS.values() for column in pair))


class Interval(NamedTuple):
    """A value with its 95% interval.

    Attributes:
        value: None where the denominator is 0.
        low, high: None where one task alone can't tell.
        n: the denominator: episodes, actions or solved episodes, as the metric says.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int


def summarise(episodes: Iterable[Episode]) -> dict[str, Any]:
    """Return the summary of a run, JSON types only: ``envs`` by id, ``in_domain``, ``out_of_domain``, ``overall``.

    An average is there only if at least one of its environments was played.
    """
    by_env: dict[str, list[Episode]] = {}
    for episode in episodes:
        by_env.setdefault(episode.env_id, []).append(episode)
    envs = {env_id: _Env(env_id, by_env[env_id]) for env_id in sorted(by_env)}
    groups = {
        "in_domain": [envs[env_id] for env_id in IN_DOMAIN if env_id in envs],
        "out_of_domain": [envs[env_id] for env_id in OUT_OF_DOMAIN if env_id in envs],
        "overall": list(envs.values()),
    }
    summary: dict[str, Any] = {"envs": {env_id: env.summary([env]) for env_id, env in envs.items()}}
    return summary | {name: _Env.summary(members) for name, members in groups.items() if members}


class _Env:
    """The sums of one environment, and their bootstrap draws."""

    def __init__(self, env_id: str, episodes: Sequence[Episode]) -> None:
        self.episodes = episodes
        self.valid = [episode for episode in episodes if episode.stop_reason is not StopReason.ERROR]
        tasks: dict[str, Floats] = {}
        for episode in sorted(self.valid, key=lambda each: each.key):
            tasks.setdefault(episode.task_id, np.zeros(len(_COLUMNS)))
            tasks[episode.task_id] += _row(episode)
        self.tasks = len(tasks)
        sums_TC = np.array(list(tasks.values())).reshape(self.tasks, len(_COLUMNS))
        self.sums_C = sums_TC.sum(axis=0)
        self.draws_DC = resample(sums_TC, "summary", env_id)

    def metric(self, name: str) -> tuple[float, Floats]:
        """Return the value of a metric and its draws; NaN where its denominator is 0."""
        over, under = (_COLUMNS.index(column) for column in RATIOS[name])
        with np.errstate(invalid="ignore", divide="ignore"):
            value = float(np.divide(self.sums_C[over], self.sums_C[under]))
            draws_D = self.draws_DC[:, over] / self.draws_DC[:, under]
        if name == "success_rate" and value in (0.0, 1.0):
            doubt_D = doubt(self.tasks, name)
            draws_D = doubt_D if value == 0 else 1 - doubt_D
        return value, draws_D

    @staticmethod
    def summary(members: Sequence[_Env]) -> dict[str, Any]:
        """Return the metrics of one environment, or their means over several."""
        episodes = [episode for member in members for episode in member.episodes]
        found: dict[str, Any] = {
            "episodes": len(episodes),
            "errors": len(episodes) - sum(len(member.valid) for member in members),
            "tasks": sum(member.tasks for member in members),
        }
        if len(members) > 1:
            found["envs"] = len(members)
        for name, (_, under) in RATIOS.items():
            n = int(sum(member.sums_C[_COLUMNS.index(under)] for member in members))
            pairs = [member.metric(name) for member in members]
            pairs = [pair for pair in pairs if not np.isnan(pair[0])]
            if not pairs:
                found[name] = Interval(None, None, None, n)._asdict()
                continue
            value = float(np.mean([value for value, _ in pairs]))
            sure = name == "success_rate" or all(member.tasks > 1 for member in members if member.tasks)
            draws = np.mean([draws_D for _, draws_D in pairs], axis=0) if sure else None
            found[name] = interval(value, draws, n)._asdict()
        found["cost"] = sum(episode.usage.cost for episode in episodes)
        reasons = Counter(str(episode.stop_reason) for episode in episodes)
        found["stop_reasons"] = {name: reasons[name] for name in sorted(reasons)}
        causes = Counter(str(episode.error) for episode in episodes if episode.error is not None)
        found["error_causes"] = dict(sorted(causes.items(), key=lambda cause: (-cause[1], cause[0]))[:_CAUSES])
        return found


def _row(episode: Episode) -> Floats:
    expert = episode.expert_steps if episode.success else None
    statuses: Mapping[str, int] = episode.statuses
    columns: dict[str, float] = {
        "successes": episode.success,
        "episodes": 1,
        "score": episode.score,
        "actions": episode.steps,
        "ratio": episode.steps / expert if expert else 0.0,
        "ratios": bool(expert),
        "invalid": statuses.get(ActionStatus.INVALID, 0) + statuses.get(ActionStatus.UNPARSED, 0),
        "well_formed": episode.well_formed,
        "prompt_tokens": episode.usage.prompt_tokens,
        "completion_tokens": episode.usage.completion_tokens,
        "seconds": episode.seconds,
    }
    return np.array([columns[name] for name in _COLUMNS], dtype=np.float64)


def resample(rows_TC: Floats, *seed: object) -> Floats:
    """Return sums over `DRAWS` bootstrap samples of the rows, shape [D, C].

    Args:
        rows_TC: one row for each task, shape [T, C].
        seed: equal seeds give equal samples.
    """
    tasks = len(rows_TC)
    if tasks == 0:
        return np.full((DRAWS, rows_TC.shape[1]), np.nan)
    rng = np.random.default_rng(stable_rng("bootstrap", *seed).getrandbits(64))
    sums = []
    for _ in range(DRAWS // _CHUNK):  # a chunk at a time: [D, T] of a large split would not be small
        picks_DT = rng.integers(tasks, size=(_CHUNK, tasks))
        picks_DT += tasks * np.arange(_CHUNK)[:, None]
        counts_DT = np.bincount(picks_DT.ravel(), minlength=_CHUNK * tasks).reshape(_CHUNK, tasks)
        sums.append(counts_DT @ rows_TC)
    return np.concatenate(sums)


def doubt(tasks: int, *seed: object) -> Floats:
    """Return draws from Beta(1, tasks), shape [D]: how far a rate of 0 out of `tasks` may be from the truth."""
    rng = np.random.default_rng(stable_rng("doubt", tasks, *seed).getrandbits(64))
    return rng.beta(1, tasks, size=DRAWS)


def interval(value: float, draws_D: Floats | None, n: int) -> Interval:
    """Return `value` with the 2.5% and 97.5% quantiles of its draws, widened to hold the value itself."""
    if draws_D is None or np.isnan(draws_D).all():
        return Interval(value, None, None, n)
    low, high = np.nanquantile(draws_D, (0.025, 0.975))
    return Interval(value, min(float(low), value), max(float(high), value), n)
