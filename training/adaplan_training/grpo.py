"""GRPO over multi-turn episodes (PilotRL paper, Eq. 6): one step, from tasks to changed weights.

Every trained token of an episode carries the episode's advantage within its group. Groups that teach nothing leave the
denominator of the loss and are counted.
"""

from __future__ import annotations

import asyncio
import dataclasses
import math
import time
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from adaplan_agents.types import Agent
from adaplan_envs.core import stable_rng
from adaplan_envs.errors import TrainingError
from adaplan_evaluation.judges import Judge
from adaplan_training.config import Stage, TrainConfig
from adaplan_training.losses import PolicyBatch, policy_loss, token_weights
from adaplan_training.metrics import describe_groups
from adaplan_training.optimise import Optimiser
from adaplan_training.policy import Policy
from adaplan_training.rewards import ScoredGroup, Scorer
from adaplan_training.rollout import Collector, Group
from adaplan_training.sequences import Batch, TokenSequence, cut, joint_mask, parse_roles, take_shuffled


class GRPO:
    """What a step of GRPO needs.

    Args:
        config: of the run.
        policy: what is trained.
        optimiser: of its parameters.
        judge: instead of the one that the recipe names.

    Raises:
        ConfigError: a name in the recipe means nothing.
    """

    def __init__(self, config: TrainConfig, policy: Policy, optimiser: Optimiser, judge: Judge | None = None) -> None:
        self.config, self.policy, self.optimiser = config, policy, optimiser
        self.world = optimiser.world
        self.collector = Collector(config.rollout)
        self.tasks = self.collector.tasks()
        self._played: dict[str, float] = {}
        self.scorer = Scorer(config, judge)

    def steps_of(self, stage: Stage) -> int:
        """Return how many steps `stage` takes."""
        if stage.steps is not None:
            return stage.steps
        assert stage.epochs is not None
        return max(1, math.ceil(stage.epochs * len(self.tasks) / self.config.rollout.groups))

    async def sample(self, agent: Agent, stage: Stage, step: int) -> list[Group]:
        """Play the groups of `step`; of several processes, this one's share of them."""
        engine = self.policy.engine
        began, before = time.perf_counter(), dataclasses.replace(engine.stats)
        count = self.config.rollout.groups
        tasks = self.world.share(take_shuffled(self.tasks, step * count, count, self.config.seed))
        numbers = self.world.share(range(count))
        roles = parse_roles(stage.roles)
        groups = await self.collector.collect(agent, engine, tasks, roles, self.config.seed, step, numbers=numbers)
        sampling = engine.stats.seconds - before.seconds
        self._played = {
            "tokens/sampled": engine.stats.sampled - before.sampled,
            "tokens/read": engine.stats.read - before.read,
            "time/sampling": sampling,
            "time/environment": time.perf_counter() - began - sampling,
        }
        return groups

    async def judge(self, groups: Sequence[Group], stage: Stage) -> list[ScoredGroup]:
        """Return the groups of all processes, each of which judges its own, with their rewards and advantages.

        Raises:
            TrainingError: every single episode ended as error.
        """
        limit = self.policy.window
        own = await asyncio.gather(*(self.scorer.score(group, stage.rewards, limit) for group in groups))
        scored = self.world.gather(own)
        episodes = [rollout.episode for each in scored for rollout in each.group.rollouts]
        if all(episode.error is not None for episode in episodes):
            error = episodes[0].error
            assert error is not None
            raise TrainingError(f"every episode of this step failed, the first with {error.type}: {error.message}")
        return scored

    def learn(self, scored: Sequence[ScoredGroup], step: int, lr: float) -> dict[str, float]:
        """Update the policy by the groups that teach something, a mini-batch at a time, and return the metrics."""
        live = [group for group in scored if not group.dead]
        stable_rng("mini-batches", self.config.seed, step).shuffle(live)
        size = self.config.rollout.mini_batch or len(live)
        minis = [_MiniBatch(live[at : at + size], self) for at in range(0, len(live), size or 1)]
        minis = [mini for mini in minis if mini.trained_tokens]
        if len(minis) > 1:  # all of them before the first update: the ratio is to the policy that played
            for mini in minis:
                mini.remember_old_logprobs()
        found = [self.optimiser.update(mini.batches, mini.loss, lr) for mini in minis]
        self.policy.sync()
        means = {name: sum(each[name] for each in found) / len(found) for name in (found[0] if found else ())}
        tokens = sum(mini.trained_tokens for mini in minis)
        return {**means, "updates": len(found), "lr": lr, "tokens/trained": tokens}

    async def step(self, groups: Sequence[Group], stage: Stage, step: int, lr: float) -> dict[str, float]:
        """Judge what `sample` played and learn from it; returns all metrics of the step."""
        began = time.perf_counter()
        scored = await self.judge(groups, stage)
        judged = time.perf_counter()
        played = {
            name: total / (self.world.size if name.startswith("time/") else 1)
            for name, total in self.world.add(self._played).items()
        }
        metrics = {**describe_groups(scored), **self.learn(scored, step, lr), **played}
        return {**metrics, "time/judging": judged - began, "time/training": time.perf_counter() - judged}

    def close(self) -> None:
        """Close the environments."""
        self.collector.close()


class _MiniBatch:
    """The groups of one optimiser step."""

    def __init__(self, groups: Sequence[ScoredGroup], run: GRPO) -> None:
        self.config, self.policy = config, policy = run.config, run.policy
        sequences: list[TokenSequence] = []
        advantages: list[float] = []
        by_turn: list[Tensor] = []
        for group in groups:
            for number, rollout in enumerate(group.rollouts):
                if not run.scorer.is_masked(rollout):
                    sequences += rollout.sequences
                    advantages += [group.advantages[number]] * len(rollout.sequences)
                    if group.turn_advantages:
                        turns = group.turn_advantages[number]
                        by_turn += [torch.tensor(each.spread(turns)) for each in rollout.sequences]
        self.advantages_B = torch.tensor(advantages, dtype=torch.float32)
        batches = cut(sequences, config.optim.batch_tokens, policy.device)
        self.batches = run.world.share(batches)
        self.turn_advantages_BT = pad_sequence(by_turn, batch_first=True) if by_turn else None
        mask_BT = joint_mask(batches)
        self.trained_tokens = int(mask_BT.sum())
        self.weights_BT = token_weights(mask_BT, config.loss.aggregation, max_tokens=policy.window)
        self.old_logprobs: dict[tuple[int, ...], Tensor] = {}

    @torch.no_grad()
    def remember_old_logprobs(self) -> None:
        """Note what the policy thinks before it changes; cut in the same batches, so that an unchanged one agrees."""
        for batch in self.batches:
            self.old_logprobs[batch.rows] = self.policy.logprobs(batch, self.config.agent.temperature)[0]

    def loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the part of one micro-batch."""
        temperature = self.config.agent.temperature
        logprobs_BT, entropies_BT = self.policy.logprobs(batch, temperature)
        weights_BT = batch.take_tokens(self.weights_BT)
        reference_BT = self.policy.reference_logprobs(batch, temperature) if self.config.loss.kl_weight else None
        turns_BT = self.turn_advantages_BT
        loss, metrics = policy_loss(
            PolicyBatch(
                logprobs_BT=logprobs_BT,
                # With one update, the policy that played is the one that is updated.
                old_logprobs_BT=self.old_logprobs.get(batch.rows, logprobs_BT.detach()),
                weights_BT=weights_BT,
                advantages_B=batch.take(self.advantages_B),
                sampler_logprobs_BT=batch.sampler_logprobs_BT,
                reference_logprobs_BT=reference_BT,
                turn_advantages_BT=None if turns_BT is None else batch.take_tokens(turns_BT),
            ),
            self.config.loss,
        )
        return loss, {**metrics, "entropy": (weights_BT * entropies_BT).sum()}
