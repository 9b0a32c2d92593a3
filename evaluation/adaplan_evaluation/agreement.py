"""How well two raters agree, with 95% bootstrap intervals over tasks (see `metrics` for how those are drawn)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adaplan_envs.core import stable_rng
from adaplan_evaluation.metrics import DRAWS, Floats, Interval, interval, resample

_RANK_DRAWS = 1_000


def sums_by_task(rows: Sequence[tuple[str, Sequence[float]]], width: int) -> Floats:
    """Return the rows of equal task added up, shape [T, width], tasks in order."""
    found: dict[str, Floats] = {}
    for task, row in sorted(rows, key=lambda each: each[0]):
        found.setdefault(task, np.zeros(width))
        found[task] += np.asarray(row, dtype=np.float64)
    return np.array(list(found.values())).reshape(len(found), width)


def rate(sums_TC: Floats, over: int, under: int, *seed: object) -> Interval:
    """Return the ratio of two columns' sums.

    At 0 or 1 the bootstrap would have no width: one disagreement per three trials more is what 95% can't rule out.
    """
    total = float(sums_TC[:, under].sum()) if len(sums_TC) else 0.0
    if total == 0:
        return Interval(None, None, None, 0)
    value = float(sums_TC[:, over].sum()) / total
    tasks = int((sums_TC[:, under] > 0).sum())
    if value in (0.0, 1.0):
        edge = 1 - 0.05 ** (1 / tasks)  # the exact one-sided binomial bound, with a task as one trial
        return Interval(value, min(value, 1 - edge), max(value, edge), int(total))
    if tasks < 2:
        return Interval(value, None, None, int(total))
    draws_DC = resample(sums_TC, "agreement", *seed)
    with np.errstate(invalid="ignore", divide="ignore"):
        return interval(value, draws_DC[:, over] / draws_DC[:, under], int(total))


def kappa(pairs: Sequence[tuple[str, int, int]], classes: int, *seed: object) -> tuple[Interval, list[list[int]]]:
    """Return Cohen's kappa and the confusion matrix, rows the first rater's class and columns the second's.

    Args:
        pairs: task, class by the first rater, class by the second.
        classes: their number.
        seed: equal seeds give equal intervals.

    Returns:
        A kappa of None where it is not defined: both raters put everything into one and the same class.
    """
    rows = [(task, np.eye(classes * classes)[first * classes + second]) for task, first, second in pairs]
    sums_TK = sums_by_task(rows, classes * classes)
    matrix = sums_TK.sum(axis=0).reshape(classes, classes)
    value = float(_kappa(matrix[None])[0])
    confusion = [[int(n) for n in row] for row in matrix]
    if np.isnan(value):
        return Interval(None, None, None, len(pairs)), confusion
    draws_D = _kappa(resample(sums_TK, "kappa", *seed).reshape(DRAWS, classes, classes)) if len(sums_TK) > 1 else None
    return interval(value, draws_D, len(pairs)), confusion


def _kappa(matrix_DKK: Floats) -> Floats:
    total_D = matrix_DKK.sum(axis=(1, 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        seen_D = np.trace(matrix_DKK, axis1=1, axis2=2) / total_D
        chance_D = (matrix_DKK.sum(axis=1) * matrix_DKK.sum(axis=2)).sum(axis=1) / total_D**2
        found: Floats = np.where(np.isclose(chance_D, 1.0), np.nan, (seen_D - chance_D) / (1 - chance_D))
    return found


def rank_correlation(pairs: Sequence[tuple[str, float, float]], *seed: object) -> Interval:
    """Return Spearman's rank correlation of pairs (task, first score, second score), ties at their mean rank.

    None where one of the raters gives everything the same score.
    """
    scores_N2 = np.array([pair[1:] for pair in sorted(pairs)], dtype=np.float64).reshape(len(pairs), 2)
    value = _spearman(scores_N2)
    if np.isnan(value):
        return Interval(None, None, None, len(pairs))
    members: dict[str, list[int]] = {}
    for position, (task, *_) in enumerate(sorted(pairs)):
        members.setdefault(task, []).append(position)
    draws_D = None
    if len(members) > 1:
        blocks = [np.array(positions) for positions in members.values()]
        rng = np.random.default_rng(stable_rng("ranks", *seed).getrandbits(64))
        picks_DT = rng.integers(len(blocks), size=(_RANK_DRAWS, len(blocks)))
        draws_D = np.array([_spearman(scores_N2[np.concatenate([blocks[t] for t in picks_T])]) for picks_T in picks_DT])
    return interval(value, draws_D, len(pairs))


def _spearman(scores_N2: Floats) -> float:
    if len(scores_N2) < 2:
        return float("nan")
    ranks = [_ranks(column) for column in scores_N2.T]
    spread = [float(rank.std()) for rank in ranks]
    if min(spread) == 0:
        return float("nan")
    return float(((ranks[0] - ranks[0].mean()) * (ranks[1] - ranks[1].mean())).mean() / (spread[0] * spread[1]))


def _ranks(values_N: Floats) -> Floats:
    _, inverse, counts = np.unique(values_N, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    mean_rank: Floats = last - (counts - 1) / 2
    return mean_rank[inverse]


def plain(intervals: Mapping[str, Interval]) -> dict[str, Any]:
    """Return intervals as JSON types."""
    return {name: each._asdict() for name, each in intervals.items()}
