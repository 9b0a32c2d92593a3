"""Agreement of raters, against hand calculations."""

from __future__ import annotations

import numpy as np
import pytest

from adaplan_evaluation.agreement import kappa, rank_correlation, rate, sums_by_task


def pairs(matrix: list[list[int]]) -> list[tuple[str, int, int]]:
    cells = [(a, b) for a, row in enumerate(matrix) for b, count in enumerate(row) for _ in range(count)]
    return [(f"t{number}", a, b) for number, (a, b) in enumerate(cells)]


def test_kappa_of_a_textbook_example() -> None:
    """20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no: observed 0.7, by chance 0.5, kappa 0.4."""
    found, confusion = kappa(pairs([[20, 5], [10, 15]]), 2)
    assert found.value == pytest.approx(0.4) and confusion == [[20, 5], [10, 15]]
    assert found.low is not None and found.high is not None
    assert 0.1 < found.low < 0.4 < found.high < 0.7
    assert kappa(pairs([[20, 5], [10, 15]]), 2)[0] == found


def test_kappa_is_one_for_equal_raters_and_zero_for_independent_ones() -> None:
    assert kappa(pairs([[5, 0, 0], [0, 6, 0], [0, 0, 7]]), 3)[0].value == pytest.approx(1)
    assert kappa(pairs([[9, 3], [3, 1]]), 2)[0].value == pytest.approx(0)


def test_kappa_is_not_defined_where_there_is_one_class() -> None:
    found, confusion = kappa(pairs([[0, 0], [0, 9]]), 2)
    assert found.value is None and confusion == [[0, 0], [0, 9]]
    assert kappa([], 2)[0].value is None


def test_rank_correlation_with_ties() -> None:
    """Ranks 1, 2.5, 2.5, 4 against 1, 2, 4, 3: covariance 0.75, variances 1.125 and 1.25."""
    found = rank_correlation([("a", 1, 10), ("b", 2, 20), ("c", 2, 40), ("d", 3, 30)])
    assert found.value == pytest.approx(0.75 / np.sqrt(1.125 * 1.25))
    assert rank_correlation([("a", 1, 1), ("b", 2, 5), ("c", 3, 9)]).value == pytest.approx(1)
    assert rank_correlation([("a", 1, 9), ("b", 2, 5), ("c", 3, 1)]).value == pytest.approx(-1)


def test_rank_correlation_is_not_defined_without_spread() -> None:
    assert rank_correlation([("a", 1, 1), ("b", 1, 2)]).value is None
    assert rank_correlation([]).value is None


def test_a_rate_resamples_tasks_and_not_their_steps() -> None:
    alone = sums_by_task([(f"t{k}", (float(k % 2), 1.0)) for k in range(40)], 2)
    together = sums_by_task([(f"t{k % 4}", (float(k % 2), 1.0)) for k in range(40)], 2)
    narrow, wide = rate(alone, 0, 1), rate(together, 0, 1)
    assert narrow.value == wide.value == 0.5 and narrow.n == wide.n == 40
    assert narrow.low is not None and wide.low is not None and wide.low < narrow.low


def test_a_rate_of_one_leaves_room_for_doubt() -> None:
    sure = sums_by_task([(f"t{k}", (1.0, 1.0)) for k in range(20)], 2)
    found = rate(sure, 0, 1)
    assert found.value == found.high == 1 and found.low == pytest.approx(0.05 ** (1 / 20))
    assert rate(sums_by_task([], 2), 0, 1).value is None
