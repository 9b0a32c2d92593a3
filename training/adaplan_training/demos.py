"""Demonstrations: the conversations that an agent would have with a model that answers as the expert does.

The agent itself plays, and so what is recorded is what it will ask for when the trained model answers. Any other model
can take the expert's place; of its episodes the successful ones are kept (rejection sampling).
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import gymnasium

from adaplan_agents import make_agent
from adaplan_agents.models import ChatReply, Conversation, Model, Provenance, Sampling, Usage
from adaplan_agents.parsing import parse_response
from adaplan_agents.plan import Plan
from adaplan_envs.core import TextEnv, stable_rng
from adaplan_envs.errors import ConfigError, NoPlanError, check_name
from adaplan_envs.types import StopReason
from adaplan_evaluation import Episode, episode_seed, run_episode
from adaplan_evaluation.suite import EnvPool, choose_tasks, env_keywords, resolve_envs
from adaplan_training.renaming import names_of, renamed
from adaplan_training.teachers import Teacher, make_teacher
from adaplan_training.transcripts import RecordedConversation, RecordingModel, Transcript, fingerprint, transcript
from adaplan_training.witness import Witness

AGENTS = ("adaplan", "brief", "mpo", "naive", "react")
"""Agents that ask a model, and so have conversations to imitate."""
PLAIN = ("brief", "naive")
"""Those of them that want a command and nothing else."""
TEACHERS = ("expert", "observer")


@dataclass(frozen=True, slots=True)
class DemoConfig:
    """Who demonstrates what.

    Attributes:
        agent: one of `AGENTS`.
        agent_settings: further keywords of it, such as ``{"replan": "deviation"}``.
        envs: names with commas, or ``all``.
        env_settings: further keywords of the environments.
        split: of which tasks.
        tasks: how many of each environment, spread over the split; None for all.
        max_difficulty: leave out harder tasks, see `Task`.
        repeats: episodes of each task.
        noise: share of turns at which another command is played than the teacher's, so that states off its path are
            seen: a random one, or the learner's. It is never one that makes the goal impossible.
        train_slips: such commands are trained like the others, as those of somebody who doesn't know better.
        rename: share of episodes that are written down with the names of things exchanged, see
            `adaplan_training.renaming`.
        seed: of everything.
        teacher: ``expert``, which may know the whole simulator, or ``observer``, who decides by what the player could
            know, see `adaplan_training.teachers`.
    """

    agent: str = "adaplan"
    agent_settings: Mapping[str, Any] = field(default_factory=dict)
    envs: str = "all"
    env_settings: Mapping[str, Any] = field(default_factory=dict)
    split: str = "train"
    tasks: int | None = None
    max_difficulty: int | None = None
    repeats: int = 1
    noise: float = 0.0
    train_slips: bool = False
    rename: float = 0.0
    seed: int = 0
    teacher: str = "expert"

    def __post_init__(self) -> None:
        check_name("agent that asks a model", self.agent, AGENTS)
        if check_name("teacher", self.teacher, TEACHERS) == "observer" and self.agent not in PLAIN:
            raise ConfigError(f"an observer gives commands, no plans: its agent is {' or '.join(PLAIN)}")
        if not 0 <= self.noise < 1:
            raise ConfigError(f"noise is {self.noise}; it is a share of turns, at least 0 and below 1")
        if not 0 <= self.rename <= 1:
            raise ConfigError(f"rename is {self.rename}; it is a share of episodes, at least 0 and at most 1")
        for name in ("tasks", "repeats"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} is {value}; it must be at least 1")


class Demonstrator:
    """Answers for a model in one episode: as a planner with the expert's plan, as an executor with a teacher's command.

    Args:
        env: where the episode is played.
        config: who demonstrates. An expert's executor says which step it carries out before it gives the command, but
            for agents that want the command alone.
        rng: of the noise, and of an observer's choices.
        learner: whose commands the noise is made of; None for random ones.
    """

    def __init__(self, env: TextEnv, config: DemoConfig, rng: random.Random, learner: Model | None = None) -> None:
        self.env, self.config, self.rng = env, config, rng
        self.observes = config.teacher == "observer"
        self.model = RecordingModel(config.teacher, self._answer, learner)
        self._teacher: Teacher | None = None
        self._played = 0

    async def _answer(
        self, conversation: RecordedConversation, sampling: Sampling, provenance: Provenance
    ) -> tuple[ChatReply, Provenance]:
        steps = [] if self.observes else self.env.expert.plan()
        if provenance is Provenance.PLANNER:
            text = Plan((*[""] * self._played, *steps)).lines(self._played + 1)
        else:
            self._played += 1
            if self._teacher is None:  # not before the episode has begun
                self._teacher = make_teacher(self.env, self.rng) if self.observes else self.env.expert
            command = self._teacher.action()
            if self.config.noise and self.rng.random() < self.config.noise:
                other = (
                    self._random(command) if conversation.inner is None else await _guess(conversation.inner, sampling)
                )
                if other is not None and other != command and self._harmless(other):
                    command = other
                    provenance = provenance if self.config.train_slips else Provenance.GIVEN
            text = f"Action: {command}"
            if steps and self.config.agent not in PLAIN:
                text = f"Thought: {steps[0]}\n{text}"
        if conversation.inner is not None:
            conversation.inner.assistant(text)
        return ChatReply(text, Usage(requests=1)), provenance

    def _random(self, command: str) -> str | None:
        choices = [action for action in self.env.admissible_actions() or () if action != command]
        return self.rng.choice(choices) if choices else None

    def _harmless(self, command: str) -> bool:
        """Return whether a command leaves the goal possible and the episode open."""
        before = self.env.snapshot()
        try:
            _, _, terminated, truncated, _ = self.env.step(command)
            if terminated or truncated:
                return False
            self.env.expert.plan()
        except NoPlanError:
            return False
        finally:
            self.env.restore(before)
        return True


async def _guess(conversation: Conversation, sampling: Sampling) -> str:
    """Return the command that a model would give, and leave the conversation as it is."""
    branch = conversation.fork()
    try:
        return parse_response((await branch.sample(sampling)).text).action
    finally:
        branch.close()


class DemoWitness(Witness):
    """A witness that writes down what its agent said."""

    def transcripts(self, model: Model, about: Mapping[str, Any], vocabulary: str | None = None) -> list[Transcript]:
        """Return the conversations with `model` that hold something to train."""
        found = []
        for name, conversation in sorted(getattr(self.session, "conversations", {}).items()):
            if isinstance(conversation, RecordedConversation) and conversation.model is model:
                each = transcript(conversation, {**about, "conversation": name}, vocabulary)
                if each.trainable:
                    found.append(each)
        return found


OnDemo = Callable[[Episode, int], None]
"""Called with each episode and the number of all."""


async def demonstrate(
    config: DemoConfig,
    model: Model | None = None,
    concurrency: int = 16,
    on_demo: OnDemo | None = None,
    learner: Model | None = None,
) -> AsyncIterator[Transcript]:
    """Play, and yield the conversations of the episodes that succeed, in the order of the tasks.

    Args:
        config: who demonstrates what.
        model: who answers; None for the environments' experts.
        concurrency: episodes at once.
        on_demo: is told of every episode.
        learner: a model that will learn from the demonstrations: the noise is then what it would do, and the teacher
            goes on from there (after DAgger, Ross et al. 2011, arXiv 1011.0686).

    Raises:
        ConfigError: a wrong name or number, or a learner where there is no noise to make of it.
        ModelAccessError: the model can't be used at all.
    """
    if model is not None and config.noise:
        raise ConfigError("noise is for the expert; a model makes its own mistakes (set a temperature)")
    if learner is not None and (not config.noise or config.train_slips):
        raise ConfigError(
            "a learner's commands are the noise: set it to their share of turns, and train_slips to false"
        )
    pool = EnvPool(**env_keywords(config.env_settings, split=config.split))
    try:
        jobs = _jobs(pool, config)
        shown = RecordingModel.around(model) if model is not None else None
        vocabulary = getattr(model, "vocabulary", None)
        mark = fingerprint(vocabulary) if vocabulary is not None else None

        async def play(env_id: str, task_id: str, repeat: int) -> list[Transcript]:
            env = pool.take(env_id)
            assert isinstance(env.unwrapped, TextEnv)
            seed = episode_seed(config.seed, env_id, task_id, repeat)
            rng = stable_rng("noise", seed)
            player = shown or Demonstrator(env.unwrapped, config, rng, learner).model
            witness = DemoWitness(make_agent(config.agent, model=player, **config.agent_settings))
            episode = await run_episode(witness, env, task_id, seed, repeat=repeat)
            pool.give(env_id, env, episode.stop_reason is StopReason.ERROR)
            if on_demo is not None:
                on_demo(episode, len(jobs))
            if not episode.success:
                return []
            about = {"env_id": env_id, "task_id": task_id, "repeat": repeat, "seed": seed, "agent": config.agent}
            about |= {"model": player.name, "success": True, "steps": episode.steps}
            found = witness.transcripts(player, about, mark)
            names_rng = stable_rng("names", seed)
            if config.rename and names_rng.random() < config.rename:
                names = names_of(env.unwrapped.name)
                found = [renamed(each, names, names_rng) for each in found]
            return found

        waiting = iter(jobs)
        running = deque(asyncio.create_task(play(*job)) for job in islice(waiting, concurrency))
        try:
            while running:
                found = await running.popleft()
                running.extend(asyncio.create_task(play(*job)) for job in islice(waiting, 1))
                for each in found:
                    yield each
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
    finally:
        pool.close()


def _jobs(pool: EnvPool, config: DemoConfig) -> list[tuple[str, str, int]]:
    jobs = []
    for env_id in resolve_envs(config.envs):
        env: gymnasium.Env[str, str] = pool.take(env_id)
        assert isinstance(env.unwrapped, TextEnv)
        if config.rename:  # said before anything is played
            names_of(env.unwrapped.name)
        for task_id in choose_tasks(env.unwrapped, config.split, config.tasks, config.max_difficulty):
            jobs += [(env_id, task_id, repeat) for repeat in range(config.repeats)]
        pool.give(env_id, env)
    return jobs
