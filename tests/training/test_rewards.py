"""Rewards of groups: terms, weights, what could not be judged, lost members."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from adaplan_agents.types import Usage
from adaplan_envs.errors import UnknownNameError
from adaplan_envs.types import ActionStatus, StopReason
from adaplan_evaluation.judges import Judge, Judgement
from adaplan_evaluation.judges.types import failed, scored
from adaplan_evaluation.types import Episode, Failure, Turn
from adaplan_training.metrics import describe_groups
from adaplan_training.recipe import from_dict
from adaplan_training.rewards import ScoredGroup, Scorer
from adaplan_training.rollout import Group, Rollout, TaskRef
from adaplan_training.sequences import TokenSequence

TASK = TaskRef("AdaPlan/Maze-v0", "maze/train/0000")


def episode(member: int, **values: Any) -> Episode:
    fields: dict[str, Any] = {
        "env_id": TASK.env_id,
        "task_id": TASK.task_id,
        "repeat": member,
        "seed": member,
        "goal": "",
        "success": False,
        "score": 0.0,
        "steps": 4,
        "max_steps": 10,
        "expert_steps": 4,
        "stop_reason": StopReason.MAX_STEPS,
        "statuses": {},
        "well_formed": 4,
        "usage": Usage(),
        "seconds": 1.0,
    }
    return Episode(**{**fields, **values})


def group_of(*episodes: Episode, length: int = 10) -> Group:
    sequence = TokenSequence((1,) * length, (False,) + (True,) * (length - 1), (0.0,) * length)
    return Group(TASK, tuple(Rollout(each, (sequence,)) for each in episodes))


def score(group: Group, weights: dict[str, float], judge: Judge | None = None, **reward: Any) -> ScoredGroup:
    config = from_dict({"model": {"spec": "x"}, "reward": reward, "stages": [{"steps": 1, "rewards": weights}]})
    return asyncio.run(Scorer(config, judge).score(group, weights, 100))


def solved(member: int, **values: Any) -> Episode:
    return episode(member, success=True, score=1.0, stop_reason=StopReason.SUCCESS, **values)


def test_terms_are_weighted_and_summed_and_weight_zero_is_only_logged() -> None:
    group = group_of(solved(0), solved(1, steps=7), episode(2, score=0.3))
    scored_group = score(group, {"e2e": 1, "success": 0.5, "score": 0}, slack=0.5)
    assert scored_group.terms["e2e"] == [1.0, 0.5, 0.0]
    assert scored_group.rewards == (1.5, 1.0, 0.0)
    assert scored_group.terms["score"] == [1.0, 1.0, 0.3]
    assert sum(scored_group.advantages) == pytest.approx(0)
    metrics = describe_groups([scored_group])
    assert metrics["reward"] == pytest.approx(2.5 / 3)
    assert metrics["reward/score"] == pytest.approx(2.3 / 3)
    assert metrics["success/maze"] == pytest.approx(2 / 3)
    assert metrics["stop/success"] == pytest.approx(2 / 3)


def test_a_group_of_equal_rewards_is_dead() -> None:
    scored_group = score(group_of(solved(0), solved(1)), {"e2e": 1})
    assert scored_group.dead
    assert scored_group.advantages == (0.0, 0.0)
    assert describe_groups([scored_group])["groups/dead"] == 1


def test_lost_members_are_in_no_mean_and_are_counted() -> None:
    lost = episode(2, stop_reason=StopReason.ERROR, error=Failure("ModelError", "gone"))
    scored_group = score(group_of(solved(0), episode(1), lost), {"success": 1})
    assert scored_group.rewards == (1.0, 0.0)
    assert scored_group.advantages == pytest.approx((1.0, -1.0), abs=1e-5)
    metrics = describe_groups([scored_group])
    assert (metrics["episodes"], metrics["episodes/lost"], metrics["success"]) == (3, 1, 0.5)
    alone = score(group_of(solved(0), lost), {"success": 1})
    assert alone.dead


def turn(observation: str, score: float) -> Turn:
    return Turn(observation, "", None, "", "", ActionStatus.OK, None, None, True, score, Usage())


def test_progress_is_paid_to_the_turn_that_made_it_and_all_else_to_the_last() -> None:
    there = solved(0, turns=(turn("start", 0.5), turn("middle", 1.0)))
    away = episode(1, score=0.25, turns=(turn("start", 0.0), turn("edge", 0.25)))
    weights = {"success": 2, "score": 1}
    found = score(group_of(there, away), weights, turn_weight=0.5, turn_discount=0.0)
    # Without looking ahead the first turns bring 0.5 and 0, and the last ones stand alone.
    assert found.turn_advantages[0] == pytest.approx([0.5, 0.0], abs=1e-4)
    assert found.turn_advantages[1] == pytest.approx([-0.5, 0.0], abs=1e-4)
    far = score(group_of(there, away), weights, turn_weight=1, turn_discount=1.0, scale=False)
    assert far.rewards == (3.0, 0.25)  # what a first turn's return adds up to
    assert far.turn_advantages[0][0] == pytest.approx((3.0 - 0.25) / 2)
    assert score(group_of(there, away), weights).turn_advantages == ()


def test_a_group_of_equal_rewards_still_teaches_where_turns_differ() -> None:
    early = solved(0, turns=(turn("start", 0.9), turn("x", 1.0)))
    late = solved(1, turns=(turn("start", 0.1), turn("y", 1.0)))
    assert score(group_of(early, late), {"score": 1}).dead
    found = score(group_of(early, late), {"score": 1}, turn_weight=1, turn_discount=0.5)
    assert not found.dead and found.advantages == (0.0, 0.0)
    assert found.turn_advantages[0][0] > 0 > found.turn_advantages[1][0]


class Shaky(Judge):
    """Fails on the members that it is told to."""

    name = "shaky"

    def __init__(self, values: Sequence[float | None]) -> None:
        self.values = values

    async def judge(self, episode: Episode, terms: Sequence[str]) -> dict[str, Judgement]:
        await asyncio.sleep(0)
        value = self.values[episode.repeat]
        return {term: failed("no answer") if value is None else scored(term, value, "") for term in terms}


def test_what_could_not_be_judged_neither_helps_nor_harms() -> None:
    group = group_of(*[episode(member) for member in range(3)])
    scored_group = score(group, {"e2e": 1}, Shaky([2.0, None, 0.0]))
    assert scored_group.rewards == (1.0, 0.5, 0.0)
    assert scored_group.advantages[1] == pytest.approx(0)
    metrics = describe_groups([scored_group])
    assert metrics["unjudged/e2e"] == 1
    assert metrics["reward/e2e"] == 0.5
    assert score(group, {"e2e": 1}, Shaky([None] * 3)).dead


def test_the_overlong_penalty_and_mask() -> None:
    members = [solved(0), episode(1, stop_reason=StopReason.CONTEXT)]
    group = group_of(*members, length=80)
    assert score(group, {"success": 1}, overlong_buffer=40).rewards == (0.5, -0.5)
    assert score(group, {"success": 1}).rewards == (1.0, 0.0)
    config = from_dict({"model": {"spec": "x"}, "reward": {"mask_overlong": True}, "stages": [{"steps": 1}]})
    masked = [Scorer(config).is_masked(rollout) for rollout in group.rollouts]
    assert masked == [False, True]


def length_of_goal(episode: Episode) -> float:
    return 1.0 / (1 + len(episode.goal))


async def waits(episode: Episode) -> float | None:
    await asyncio.sleep(0)
    return None if episode.repeat else 1.0


def test_terms_of_one_s_own_plain_or_async() -> None:
    group = group_of(episode(0), replace(episode(1), goal="x"))
    names = {f"{__name__}:length_of_goal": 1.0, f"{__name__}:waits": 1.0}
    assert score(group, names).rewards == (2.0, 1.5)


def test_an_unknown_term_or_judge_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'success'"):
        score(group_of(episode(0)), {"sucess": 1})
    with pytest.raises(UnknownNameError, match="did you mean 'rules'"):
        Scorer(from_dict({"model": {"spec": "x"}, "reward": {"judge": "ruels"}, "stages": [{"steps": 1}]}))
