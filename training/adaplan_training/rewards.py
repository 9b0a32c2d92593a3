"""Rewards: named terms in [0, 1], weighted and summed (PilotRL paper, section 3)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import torch

from adaplan_agents.loading import load_object
from adaplan_agents.models import model_names
from adaplan_envs.errors import ConfigError, UnknownNameError
from adaplan_envs.types import StopReason
from adaplan_evaluation.judges import TERMS, Judge, LLMJudge, RulesJudge
from adaplan_evaluation.types import Episode
from adaplan_training.config import TrainConfig
from adaplan_training.losses import group_advantages, overlong_penalty, turn_advantages
from adaplan_training.rollout import Group, Rollout

Function = Callable[[Episode], float | Awaitable[float | None] | None]
"""From an episode to a reward in [0, 1], or None where it could not be judged."""

OWN: dict[str, Function] = {
    "score": lambda episode: episode.score,
    "success": lambda episode: float(episode.success),
}
"""Terms beside those of the judges: progress at the end, and whether the goal was reached."""


@dataclass(frozen=True, slots=True)
class ScoredGroup:
    """A group with what its episodes are worth. Lost members are in none of these lists.

    Attributes:
        group: the episodes.
        rollouts: the members that count.
        terms: term -> its value for each of them, None where it could not be judged.
        penalties: for coming close to the token limit, 0 down to -1.
        rewards: their totals.
        advantages: and what is learned from them.
        turn_advantages: what is added at each turn; empty where turns are not told apart.
        dead: all rewards are equal, or fewer than two members are left: the group teaches nothing.
    """

    group: Group
    rollouts: tuple[Rollout, ...]
    terms: Mapping[str, Sequence[float | None]]
    penalties: tuple[float, ...]
    rewards: tuple[float, ...]
    advantages: tuple[float, ...]
    dead: bool
    turn_advantages: tuple[Sequence[float], ...] = ()


class Scorer:
    """Judges groups.

    Args:
        config: of the run.
        judge: of the terms ``format``, ``adherence``, ``e2e`` and ``plan_quality``; default the one that
            ``config.reward.judge`` names.

    Raises:
        ConfigError: a stage names a term that does not exist, or there is no such judge.
    """

    def __init__(self, config: TrainConfig, judge: Judge | None = None) -> None:
        self.config = config.reward
        names = dict.fromkeys(name for stage in config.stages for name in stage.rewards)
        self.functions = {name: _function(name) for name in names if name not in TERMS}
        self._owned = judge is None
        self.judge = judge or _judge(config)

    async def score(self, group: Group, weights: Mapping[str, float], limit: int) -> ScoredGroup:
        """Judge the episodes of a group and compare them.

        A term that could not judge a member counts there as its mean over the others: it neither helps nor harms.

        Args:
            group: the episodes.
            weights: term -> its weight in the total; 0 for those that are logged only.
            limit: tokens of a conversation, for the overlong penalty.
        """
        rollouts = tuple(group.survivors)
        judged = [await self._values(rollout.episode, weights) for rollout in rollouts]
        terms = {name: [values[name] for values in judged] for name in weights}
        penalties = tuple(
            overlong_penalty(max(map(len, rollout.sequences), default=0), limit, self.config.overlong_buffer)
            for rollout in rollouts
        )
        rewards = list(penalties)
        for name, weight in weights.items():
            known = [value for value in terms[name] if value is not None]
            neutral = sum(known) / len(known) if known else 0.0
            for number, value in enumerate(terms[name]):
                rewards[number] += weight * (neutral if value is None else value)
        if len(rewards) < 2:
            return ScoredGroup(group, rollouts, terms, penalties, tuple(rewards), (0.0,) * len(rewards), True)
        rewards_G = torch.tensor(rewards, dtype=torch.float64)
        advantages_G, dead = group_advantages(rewards_G, scale=self.config.scale)
        turns: tuple[Sequence[float], ...] = ()
        if self.config.turn_weight:
            turns = self._turn_advantages(rollouts, rewards, weights.get("score", 0.0))
            dead = dead and not any(map(any, turns))
        return ScoredGroup(group, rollouts, terms, penalties, tuple(rewards), tuple(advantages_G.tolist()), dead, turns)

    def _turn_advantages(
        self, rollouts: Sequence[Rollout], totals: Sequence[float], progress: float
    ) -> tuple[Sequence[float], ...]:
        """Return each turn's advantage, times its weight.

        The reward for progress belongs to the turns that made it, all else to the last one; together they are `totals`.
        """
        brought = []
        for rollout, total in zip(rollouts, totals, strict=True):
            scores = [0.0, *(turn.score for turn in rollout.episode.turns)]
            steps = [progress * (after - before) for before, after in pairwise(scores)]
            if steps:
                steps[-1] += total - sum(steps)
            brought.append(steps)
        seen = [[turn.observation for turn in rollout.episode.turns] for rollout in rollouts]
        found = turn_advantages(seen, brought, discount=self.config.turn_discount, scale=self.config.scale)
        return tuple([self.config.turn_weight * advantage for advantage in turns] for turns in found)

    async def _values(self, episode: Episode, names: Iterable[str]) -> dict[str, float | None]:
        asked = [name for name in names if name in TERMS]
        found = await self.judge.judge(episode, asked) if asked else {}
        values = {name: judgement.value for name, judgement in found.items()}
        for name in names:
            if name in self.functions:
                value = self.functions[name](episode)
                values[name] = await value if inspect.isawaitable(value) else value
        return values

    async def aclose(self) -> None:
        """Release the judge, where the recipe named it."""
        if self._owned:
            await self.judge.aclose()

    def is_masked(self, rollout: Rollout) -> bool:
        """Return whether the episode counts in its group's baseline, but is not trained on itself."""
        return self.config.mask_overlong and rollout.episode.stop_reason is StopReason.CONTEXT


def _function(name: str) -> Function:
    if name in OWN:
        return OWN[name]
    if ":" in name:
        return cast(Function, load_object(name, "reward term"))
    raise UnknownNameError("reward term", name, [*TERMS, *OWN, "module:function"])


def _judge(config: TrainConfig) -> Judge:
    name = config.reward.judge
    if name == "rules":
        return RulesJudge(slack=config.reward.slack, env_settings=config.rollout.settings)
    if name.partition(":")[0] in model_names():
        return LLMJudge(name, env_settings=config.rollout.settings)
    if ":" not in name:
        raise UnknownNameError("judge", name, ["rules", "openai:NAME", "module:judge"])
    found = load_object(name, "judge")
    if not isinstance(found, Judge):
        raise ConfigError(f"judge {name!r} is {type(found).__name__}, which is no adaplan_evaluation.judges.Judge")
    return found
