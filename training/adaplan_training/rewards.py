"""Rewards: named terms in [0, 1], weighted and summed (PilotRL paper, section 3)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import torch

from adaplan_agents.loading import load_object
from adaplan_envs.errors import UnknownNameError
from adaplan_envs.types import StopReason
from adaplan_evaluation.types import Episode
from adaplan_training.config import RewardConfig
from adaplan_training.losses import group_advantages, overlong_penalty
from adaplan_training.rollout import Group, Rollout

Term = Callable[[Episode, RewardConfig], float | Awaitable[float | None] | None]
"""From an episode to a reward in [0, 1], or None where it could not be judged."""


def format_reward(episode: Episode, config: RewardConfig) -> float:
    """Return 1 if every answer is exactly ``Thought: ... Action: ...`` or ``Action: ...``, else 0."""
    return float(episode.steps > 0 and episode.well_formed == episode.steps)


def e2e_reward(episode: Episode, config: RewardConfig) -> float:
    """Return 1 for a goal reached efficiently, 0.5 with redundant steps, 0 where it was not reached.

    Efficient is at most ``1 + slack`` times the expert's steps. Where those are not known, any success is.
    """
    if not episode.success:
        return 0.0
    expert = episode.expert_steps
    return 1.0 if expert is None or episode.steps <= (1 + config.slack) * expert else 0.5


def success_reward(episode: Episode, config: RewardConfig) -> float:
    """Return 1 for a goal reached, else 0."""
    return float(episode.success)


def score_reward(episode: Episode, config: RewardConfig) -> float:
    """Return the progress at the end, in [0, 1]."""
    return episode.score


TERMS: dict[str, Term] = {
    "e2e": e2e_reward,
    "format": format_reward,
    "score": score_reward,
    "success": success_reward,
}
"""Name -> term. A recipe can also name one of yours, ``module:function``."""


def find_terms(names: Sequence[str]) -> dict[str, Term]:
    """Return the terms that `names` mean.

    Raises:
        UnknownNameError: there is no such term.
    """
    found = {}
    for name in names:
        if name in TERMS:
            found[name] = TERMS[name]
        elif ":" in name:
            found[name] = cast(Term, load_object(name, "reward term"))
        else:
            raise UnknownNameError("reward term", name, [*TERMS, "module:function"])
    return found


@dataclass(frozen=True, slots=True)
class ScoredGroup:
    """A group with what its episodes are worth. Lost members are in none of these lists.

    Attributes:
        group: the episodes.
        rollouts: the members that count.
        terms: term -> its value for each of them, None where it could not be judged.
        rewards: their totals.
        advantages: and what is learned from them.
        dead: all rewards are equal, or fewer than two members are left: the group teaches nothing.
    """

    group: Group
    rollouts: tuple[Rollout, ...]
    terms: Mapping[str, Sequence[float | None]]
    rewards: tuple[float, ...]
    advantages: tuple[float, ...]
    dead: bool


async def score_group(
    group: Group, terms: Mapping[str, Term], weights: Mapping[str, float], config: RewardConfig, limit: int
) -> ScoredGroup:
    """Judge the episodes of a group and compare them.

    A term that could not judge a member counts there as its mean over the others: it neither helps nor harms.

    Args:
        group: the episodes.
        terms: all that are logged.
        weights: term -> its weight in the total; 0 for those that are logged only.
        config: slack, scaling, overlong penalty.
        limit: tokens of a conversation, for the overlong penalty.
    """
    rollouts = tuple(group.survivors)
    values = {
        name: list(await asyncio.gather(*(_judge(term, rollout.episode, config) for rollout in rollouts)))
        for name, term in terms.items()
    }
    rewards = [
        -abs(overlong_penalty(max(map(len, rollout.sequences), default=0), limit, config.overlong_buffer))
        for rollout in rollouts
    ]
    for name, weight in weights.items():
        judged = [value for value in values[name] if value is not None]
        neutral = sum(judged) / len(judged) if judged else 0.0
        for number, value in enumerate(values[name]):
            rewards[number] += weight * (neutral if value is None else value)
    if len(rewards) < 2:
        return ScoredGroup(group, rollouts, values, tuple(rewards), (0.0,) * len(rewards), True)
    advantages_G, dead = group_advantages(torch.tensor(rewards, dtype=torch.float64), scale=config.scale)
    return ScoredGroup(group, rollouts, values, tuple(rewards), tuple(advantages_G.tolist()), dead)


async def _judge(term: Term, episode: Episode, config: RewardConfig) -> float | None:
    found = term(episode, config)
    return await found if inspect.isawaitable(found) else found


def is_masked(rollout: Rollout, config: RewardConfig) -> bool:
    """Return whether the episode counts in its group's baseline, but is not trained on itself."""
    return config.mask_overlong and rollout.episode.stop_reason is StopReason.CONTEXT
