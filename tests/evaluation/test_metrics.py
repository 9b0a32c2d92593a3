"""From episodes to rates with intervals, and runs against each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adaplan_agents import Usage
from adaplan_envs import StopReason
from adaplan_envs.errors import ConfigError
from adaplan_evaluation import Episode, Failure, Run, compare
from adaplan_evaluation.metrics import DRAWS, doubt, interval, resample, summarise

ALFWORLD, WORDLE, MAZE = "AdaPlan/ALFWorld-v0", "AdaPlan/Wordle-v0", "AdaPlan/Maze-v0"


def episode(task: int = 0, success: bool = False, env_id: str = MAZE, **changes: Any) -> Episode:
    stop = StopReason.SUCCESS if success else StopReason.MAX_STEPS
    values: dict[str, Any] = {
        "env_id": env_id,
        "task_id": f"task/{task:04d}",
        "repeat": 0,
        "seed": 0,
        "goal": "",
        "success": success,
        "score": float(success),
        "steps": 10,
        "max_steps": 10,
        "expert_steps": 5,
        "stop_reason": stop,
        "statuses": {"ok": 6, "invalid": 3, "unparsed": 1},
        "well_formed": 8,
        "usage": Usage(100, 10, 10, 0.5),
        "seconds": 2.0,
    }
    return Episode(**{**values, **changes})


def error(task: int = 0, **changes: Any) -> Episode:
    failure = Failure("ModelError", "down")
    return episode(task, stop_reason=StopReason.ERROR, error=failure, score=0.9, **changes)


def overall(*episodes: Episode) -> dict[str, Any]:
    summary = summarise(episodes)
    assert json.loads(json.dumps(summary)) == summary
    return dict(summary["overall"])


def test_rates_are_means_over_the_episodes_that_ended_without_error() -> None:
    found = overall(episode(0, True), episode(1), episode(2), error(3))
    assert (found["episodes"], found["errors"], found["tasks"]) == (4, 1, 3)
    assert found["success_rate"]["value"] == pytest.approx(1 / 3)
    assert found["success_rate"]["n"] == 3
    assert found["score"]["value"] == pytest.approx(1 / 3)
    assert found["stop_reasons"] == {"error": 1, "max_steps": 2, "success": 1}
    assert found["cost"] == 2.0  # the error was paid, too
    assert found["error_causes"] == {"ModelError: down": 1}


@pytest.mark.parametrize("stop", [StopReason.DEADLINE, StopReason.BUDGET, StopReason.CONTEXT, StopReason.FAILURE])
def test_limits_that_an_agent_ran_into_count_as_failures(stop: StopReason) -> None:
    found = overall(episode(0, True), episode(1, stop_reason=stop))
    assert (found["errors"], found["success_rate"]["value"]) == (0, 0.5)


def test_rates_of_actions_and_turns_are_pooled() -> None:
    found = overall(episode(0), episode(1, steps=2, statuses={"ok": 2}, well_formed=2))
    assert found["invalid_rate"]["value"] == pytest.approx(4 / 12)
    assert found["format_rate"]["value"] == pytest.approx(10 / 12)
    assert found["invalid_rate"]["n"] == 12


def test_steps_over_expert_steps_looks_at_solved_episodes_with_a_known_expert_only() -> None:
    found = overall(episode(0, True), episode(1, True, steps=5), episode(2), episode(3, True, expert_steps=None))
    assert found["expert_ratio"]["value"] == pytest.approx((2 + 1) / 2)
    assert found["expert_ratio"]["n"] == 2


def test_nothing_to_divide_by_is_none_and_not_zero() -> None:
    found = overall(error(0), error(1))
    assert found["success_rate"] == {"value": None, "low": None, "high": None, "n": 0}
    assert found["expert_ratio"]["value"] is None
    assert overall(episode(0), episode(1))["expert_ratio"]["value"] is None
    assert summarise([]) == {"envs": {}}


def test_averages_give_each_environment_the_same_weight() -> None:
    many = [episode(task, True, WORDLE) for task in range(30)]
    few = [episode(task, False, ALFWORLD) for task in range(10)]
    other = [episode(task, task < 5, MAZE) for task in range(10)]
    summary = summarise([*many, *few, *other])
    assert summary["in_domain"]["success_rate"]["value"] == 0.5
    assert summary["out_of_domain"]["success_rate"]["value"] == 0.5
    assert summary["overall"]["success_rate"]["value"] == pytest.approx(0.5)
    assert (summary["in_domain"]["envs"], summary["overall"]["envs"]) == (2, 3)
    assert summary["in_domain"]["success_rate"]["n"] == 40
    assert "in_domain" not in summarise(other)


def test_an_environment_without_a_value_stays_out_of_the_average() -> None:
    summary = summarise([episode(0, True, WORDLE), episode(1, True, WORDLE), error(0, env_id=ALFWORLD)])
    assert summary["overall"]["success_rate"]["value"] == 1.0
    assert summary["overall"]["score"]["low"] is not None


def test_the_interval_is_that_of_the_bootstrap() -> None:
    low, high = 0.18, 0.42  # normal approximation of 18 out of 60
    found = overall(*(episode(task, task < 18) for task in range(60)))["success_rate"]
    assert found["low"] == pytest.approx(low, abs=0.02)
    assert found["high"] == pytest.approx(high, abs=0.02)


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    covered = 0
    for trial in range(200):
        solved = (rng.random((50, 1)) < 0.3).astype(float)
        found = interval(float(solved.mean()), resample(solved, trial)[:, 0] / 50, 50)
        covered += found.low is not None and found.high is not None and found.low <= 0.3 <= found.high
    assert 175 <= covered <= 199


def test_an_interval_is_as_wide_as_the_doubt_where_no_task_or_every_task_is_solved() -> None:
    none = overall(*(episode(task) for task in range(20)))["success_rate"]
    every = overall(*(episode(task, True) for task in range(20)))["success_rate"]
    exact = 1 - 0.025 ** (1 / 20)  # Clopper and Pearson
    assert (none["low"], every["high"]) == (0.0, 1.0)
    assert none["high"] == pytest.approx(exact, abs=0.01)
    assert every["low"] == pytest.approx(1 - exact, abs=0.01)


def test_repeats_of_a_task_do_not_make_it_look_like_more_tasks() -> None:
    once = overall(*(episode(task, task < 6) for task in range(20)))["success_rate"]
    often = overall(*(episode(task, task < 6, repeat=k) for task in range(20) for k in range(10)))["success_rate"]
    assert (often["low"], often["high"]) == (once["low"], once["high"])
    assert often["n"] == 200


def test_one_task_has_no_interval_but_for_its_success() -> None:
    found = overall(episode(0, True))
    assert found["score"] == {"value": 1.0, "low": None, "high": None, "n": 1}
    assert found["success_rate"]["low"] == pytest.approx(0.025, abs=0.01)


def test_a_summary_depends_on_the_episodes_alone() -> None:
    episodes = [episode(task, task % 3 == 0, env_id) for task in range(12) for env_id in (MAZE, WORDLE)]
    assert summarise(episodes) == summarise(reversed(episodes))


def test_a_bootstrap_sample_is_as_large_as_the_data() -> None:
    rows = np.array([[1.0, 2.0], [1.0, 4.0], [1.0, 9.0]])
    sums = resample(rows, "test")
    assert sums.shape == (DRAWS, 2)
    assert (sums[:, 0] == 3).all()
    assert sums[:, 1].min() == 6 and sums[:, 1].max() == 27
    assert sums[:, 1].mean() == pytest.approx(15, rel=0.02)
    assert interval(0.5, np.array([0.6, 0.7]), 3).low == 0.5
    assert doubt(1000).max() < 0.05


def run(*episodes: Episode, name: str = "run", **config: Any) -> Run:
    keys: dict[str, Any] = dict.fromkeys(("repeats", "seed", "max_steps", "env_settings", "deadline", "token_budget"))
    results = {"complete": True, "config": {**keys, "agent": {"name": name}, **config}}
    return Run(results, episodes=list(episodes))


def test_runs_are_compared_on_the_tasks_that_both_have() -> None:
    first = run(*(episode(task, task < 10) for task in range(30)), name="a")
    second = run(*(episode(task, task < 20) for task in range(5, 40)), error(3), name="b", seed=1)
    found = compare(first, second)
    success = found.rows[0]
    assert (found.first, found.second) == ("a", "b")
    assert (success.env_id, success.metric, success.pairs) == (MAZE, "success_rate", 25)
    assert (found.only_first, found.only_second) == (5, 10)
    assert (success.first, success.second) == (5 / 25, 15 / 25)
    assert success.difference.value == pytest.approx(0.4)
    assert (success.better, success.worse) == (10, 0)
    assert found.notes == ["seed: None and 1"]


def test_pairing_sees_a_difference_that_the_runs_alone_would_not_show() -> None:
    first = [episode(task, task % 2 == 0) for task in range(60)]
    second = [episode(task, task % 2 == 0 or task < 12) for task in range(60)]
    low_alone = summarise(second)["overall"]["success_rate"]["low"]
    difference = compare(run(*first), run(*second)).rows[0].difference
    assert low_alone < 0.5
    assert difference.value == pytest.approx(0.1)
    assert difference.low is not None and difference.low > 0.03


def test_swapping_the_runs_swaps_the_sign() -> None:
    one = run(*(episode(task, task % 3 == 0) for task in range(30)))
    two = run(*(episode(task, task % 2 == 0) for task in range(30)))
    ahead, back = compare(one, two).rows[0], compare(two, one).rows[0]
    assert ahead.difference.value == -(back.difference.value or 0)
    assert ahead.difference.low == pytest.approx(-(back.difference.high or 0))
    assert (ahead.better, ahead.worse) == (back.worse, back.better)


def test_a_tie_is_not_taken_for_certainty() -> None:
    same = run(*(episode(task, True) for task in range(10)))
    difference = compare(same, same).rows[0].difference
    assert difference.value == 0
    assert difference.low is not None and -0.4 < difference.low < -0.1
    assert difference.high is not None and 0.1 < difference.high < 0.4


def test_environments_have_the_same_weight_in_a_comparison() -> None:
    one = [episode(task, False, WORDLE) for task in range(30)] + [episode(task, True) for task in range(10)]
    two = [episode(task, task < 15, WORDLE) for task in range(30)] + [episode(task, True) for task in range(10)]
    rows = {(row.env_id, row.metric): row for row in compare(run(*one), run(*two)).rows}
    assert rows["overall", "success_rate"].difference.value == pytest.approx(0.25)
    assert rows["overall", "success_rate"].pairs == 40
    assert len(rows) == 6


def test_runs_without_a_common_task_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no task in common"):
        compare(run(episode(1)), run(episode(2)))
    with pytest.raises(ConfigError, match="no run in"):
        compare(run(episode(1)), tmp_path)
