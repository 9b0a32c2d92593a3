"""Rollouts: groups of episodes of the same task, as token sequences to train on.

The episodes are those of `adaplan_evaluation.run_episode`; what a trainer needs beyond them is in the conversations of
their sessions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

from adaplan_agents.models.base import Conversation, Provenance
from adaplan_agents.models.tokens import TokenConversation
from adaplan_agents.types import Agent, Session
from adaplan_envs.core import TextEnv, stable_rng
from adaplan_envs.errors import ConfigError
from adaplan_envs.types import StopReason
from adaplan_evaluation import Episode, count_expert_steps, run_episode
from adaplan_evaluation.suite import EnvPool, choose_tasks, env_keywords, resolve_envs
from adaplan_training.config import RolloutConfig
from adaplan_training.sequences import TokenSequence
from adaplan_training.witness import TurnWitness


class TaskRef(NamedTuple):
    """A task of the suite."""

    env_id: str
    task_id: str


@dataclass(frozen=True, slots=True)
class Rollout:
    """One episode.

    Attributes:
        episode: as an evaluation would record it.
        sequences: the conversations with the policy that hold trained tokens: one for a unified agent. Branches that
            the agent dropped are not among them.
    """

    episode: Episode
    sequences: tuple[TokenSequence, ...]

    @property
    def lost(self) -> bool:
        """Whether it ended as error, which says nothing of the policy: the group goes on without it."""
        return self.episode.stop_reason is StopReason.ERROR


@dataclass(frozen=True, slots=True)
class Group:
    """Episodes of one task. They differ in their seeds, and so in what was sampled."""

    task: TaskRef
    rollouts: tuple[Rollout, ...]

    @property
    def survivors(self) -> list[Rollout]:
        """The members that were not lost."""
        return [rollout for rollout in self.rollouts if not rollout.lost]


class Collector:
    """Plays groups.

    Args:
        config: what is played, and how.

    Raises:
        ConfigError: no such environment, split or setting.
    """

    def __init__(self, config: RolloutConfig) -> None:
        self.config = config
        self.pool = EnvPool(**env_keywords(config.settings, split=config.split, max_steps=config.max_steps))
        self.env_ids = resolve_envs(config.envs)
        self._executor = ThreadPoolExecutor(config.concurrency, "adaplan-env")
        self._expert_steps: dict[TaskRef, int | None] = {}

    def tasks(self) -> list[TaskRef]:
        """Return all tasks that are played, environment by environment."""
        found = []
        for env_id in self.env_ids:
            env = self.pool.take(env_id)
            assert isinstance(env.unwrapped, TextEnv)
            found += [
                TaskRef(env_id, each)
                for each in choose_tasks(
                    env.unwrapped, self.config.split, self.config.tasks, self.config.max_difficulty
                )
            ]
            self.pool.give(env_id, env)
        return found

    async def collect(
        self,
        agent: Agent,
        sampler: Any,
        tasks: Sequence[TaskRef],
        roles: Sequence[Provenance],
        *seed: object,
        numbers: Sequence[int] | None = None,
    ) -> list[Group]:
        """Play `group_size` episodes of each of `tasks`. Equal arguments give equal groups, at any concurrency.

        Args:
            agent: who plays.
            sampler: of the policy; only tokens that it sampled are trained.
            tasks: one for each group; the same one twice gives two different groups.
            roles: whose tokens are trained.
            seed: each episode gets its own from it.
            numbers: of the tasks, which go into their seeds, where they are a part of more; default 0, 1, 2 ...
        """
        size = self.config.group_size
        slots: list[list[Rollout | None]] = [[None] * size for _ in tasks]
        jobs = iter([(number, member) for number in range(len(tasks)) for member in range(size)])

        async def work() -> None:
            for number, member in jobs:
                task = tasks[number]
                place = number if numbers is None else numbers[number]
                own_seed = stable_rng("rollout", *seed, place, *task, member).getrandbits(31)
                slots[number][member] = await self._play(agent, sampler, task, roles, own_seed, member)

        workers = [asyncio.create_task(work()) for _ in range(min(self.config.concurrency, size * len(tasks)))]
        try:
            await asyncio.gather(*workers)
        finally:  # an error that every episode would meet, or the run was stopped
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        return [
            Group(task, tuple(rollout for rollout in members if rollout is not None))
            for task, members in zip(tasks, slots, strict=True)
        ]

    async def _play(
        self, agent: Agent, sampler: Any, task: TaskRef, roles: Sequence[Provenance], seed: int, member: int
    ) -> Rollout:
        env = self.pool.take(task.env_id)
        if task not in self._expert_steps:
            self._expert_steps[task] = count_expert_steps(env, task.task_id)
        witness = TurnWitness(agent)
        episode = await run_episode(
            witness,
            env,
            task.task_id,
            seed,
            repeat=member,
            deadline=self.config.deadline,
            expert_steps=self._expert_steps[task],
            executor=self._executor,
        )
        broken = episode.stop_reason in (StopReason.ERROR, StopReason.DEADLINE)
        self.pool.give(task.env_id, env, broken)
        return Rollout(episode, sequences_of(witness.session, sampler, roles, witness.turn_ends))

    def close(self) -> None:
        """Close the environments."""
        self.pool.close()
        self._executor.shutdown(wait=False, cancel_futures=True)


def sequences_of(
    session: Session | None, sampler: Any, roles: Sequence[Provenance], turn_ends: Sequence[Mapping[str, int]] = ()
) -> tuple[TokenSequence, ...]:
    """Return what is trained of a session: its conversations with `sampler`, in the order of their names.

    Args:
        session: as it was when the episode ended.
        sampler: of the policy.
        roles: whose tokens are trained.
        turn_ends: for each turn, how long each conversation was after it.

    Raises:
        ConfigError: the session has no conversations that could be trained.
    """
    if session is None:  # lost before it began
        return ()
    conversations: dict[str, Conversation] | None = getattr(session, "conversations", None)
    if conversations is None:
        raise ConfigError(
            f"{type(session).__name__} has no `conversations`: only agents that ask a model can be trained"
        )
    found = []
    for name, conversation in sorted(conversations.items()):
        if isinstance(conversation, TokenConversation) and conversation.sampler is sampler:
            ends = [lengths.get(name, 0) for lengths in turn_ends]
            sequence = TokenSequence.from_context(conversation.context, roles, ends)
            if sequence.trained_tokens:
                found.append(sequence)
    return tuple(found)
