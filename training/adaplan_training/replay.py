"""Recorded runs back into conversations: the agent plays each episode again and is told the recorded answers."""

from __future__ import annotations

import asyncio
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from adaplan_agents import make_agent
from adaplan_agents.models import ChatReply, Provenance, Sampling, Usage
from adaplan_agents.types import Agent, Briefing
from adaplan_envs.core import TextEnv
from adaplan_envs.errors import ConfigError
from adaplan_evaluation import Episode, load_run
from adaplan_evaluation.suite import EnvPool, env_keywords
from adaplan_training.demos import AGENTS, DemoWitness
from adaplan_training.transcripts import RecordedConversation, RecordingModel, Transcript


def replay_run(path: str | Path) -> Iterator[Transcript]:
    """Yield the conversations of the successful episodes of a run (rejection sampling).

    Raises:
        ConfigError: no such run, its agent asks no model or is none of ours, or an episode goes another way now.
    """
    run = load_run(path)
    config = run.results["config"]
    name = config["agent"].get("name")
    if name not in AGENTS:
        raise ConfigError(f"{path}: agent {name!r} can't be imitated from a run; those of {', '.join(AGENTS)} can")
    keywords = env_keywords(config["env_settings"], split=config["split"], max_steps=config["max_steps"])
    pool = EnvPool(**keywords)
    # A thread of its own, so that this works where an event loop is running already, as in a notebook.
    thread = ThreadPoolExecutor(1, "adaplan-replay")
    try:
        for episode in run.episodes:
            if episode.success:
                env = pool.take(episode.env_id)
                assert isinstance(env.unwrapped, TextEnv)
                play = _replay(episode, env.unwrapped, config["agent"])
                yield from thread.submit(asyncio.run, play).result()
                pool.give(episode.env_id, env)
    finally:
        thread.shutdown()
        pool.close()


async def _replay(episode: Episode, env: TextEnv, record: Mapping[str, Any]) -> list[Transcript]:
    answers = deque((call["text"], call["finish_reason"]) for turn in episode.turns for call in turn.trace)

    async def answer(
        conversation: RecordedConversation, sampling: Sampling, provenance: Provenance
    ) -> tuple[ChatReply, Provenance]:
        if not answers:
            raise ConfigError("the agent asks the model more often now than it did then")
        text, finish = answers.popleft()
        return ChatReply(text, Usage(requests=1), finish), provenance

    trained = RecordingModel(record["model"]["name"], answer)
    witness = DemoWitness(_agent(record, trained, RecordingModel("another", answer)))
    where = f"{episode.task_id}, repeat {episode.repeat}"
    observation, info = env.reset(seed=episode.seed, options={"task_id": episode.task_id})
    session = witness.start(
        Briefing(episode.env_id, episode.task_id, info["goal"], env.rules, episode.seed, int(info["max_steps"]), env)
    )
    for number, turn in enumerate(episode.turns, 1):
        if episode.backend == "real" and observation != turn.observation:
            raise ConfigError(f"{where}: turn {number} brings another observation than in the run")
        decision = await session.act(turn.observation)
        if decision.action != turn.action:
            raise ConfigError(f"{where}: at turn {number} the agent plays {decision.action!r}, not {turn.action!r}")
        if episode.backend == "real":
            observation, *_ = env.step(turn.action)
    about = {"env_id": episode.env_id, "task_id": episode.task_id, "repeat": episode.repeat, "seed": episode.seed}
    about |= {"agent": record["name"], "model": trained.name, "success": True, "steps": episode.steps}
    return witness.transcripts(trained, about)


def _agent(record: Mapping[str, Any], trained: RecordingModel, another: RecordingModel) -> Agent:
    """Return the agent that `record`, its `describe()`, was made of."""
    settings: dict[str, Any] = dict(record["sampling"])
    for key in ("replan", "candidates"):
        if key in record:
            settings[key] = record[key]
    if record["name"] == "mpo" or record.get("mode") == "isolated":
        settings["planner"] = trained
    source = record.get("plan_source")
    if source is not None:
        if source != "expert" and not isinstance(source, Mapping):
            raise ConfigError(f"the run's plans came from a function, {source}; they can't be had again")
        settings["plan_source"] = "expert" if source == "expert" else another
    if "prompts" not in record:
        return make_agent(record["name"], model=trained, **settings)
    with tempfile.TemporaryDirectory() as folder:
        for name, text in record["prompts"].items():
            (Path(folder) / f"{name}.md").write_text(text, encoding="utf-8")
        return make_agent(record["name"], model=trained, prompts=folder, **settings)
