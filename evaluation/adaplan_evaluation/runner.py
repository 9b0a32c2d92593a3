"""Many episodes at once, on disk as they end."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from adaplan_agents import make_agent
from adaplan_agents.models import Model, load_model
from adaplan_agents.types import Agent
from adaplan_envs.core import TextEnv
from adaplan_envs.errors import ConfigError
from adaplan_envs.registration import resolve_id
from adaplan_envs.types import StopReason, Task
from adaplan_evaluation.episode import count_expert_steps, run_episode
from adaplan_evaluation.loops import callable_from_sync_code
from adaplan_evaluation.metrics import summarise
from adaplan_evaluation.provenance import commit, versions
from adaplan_evaluation.store import EPISODES, EpisodeLog, Run, load_run, write_results
from adaplan_evaluation.suite import EnvPool, choose_tasks, env_keywords, fingerprint, resolve_envs
from adaplan_evaluation.types import Episode, EpisodeKey, episode_seed

OnEpisode = Callable[[Episode, int], None]
"""Called with each episode and the number of episodes of the whole run."""


async def evaluate_async(
    agent: Agent | Callable[[str], Any] | str = "adaplan",
    envs: str | Sequence[str] = "all",
    *,
    model: Model | str | None = None,
    agent_settings: Mapping[str, Any] | None = None,
    split: str = "test",
    episodes: int | None = 50,
    tasks: str | Sequence[str] | None = None,
    max_difficulty: int | None = None,
    repeats: int = 1,
    seed: int = 0,
    max_steps: int | None = None,
    env_settings: Mapping[str, Any] | None = None,
    deadline: float | None = None,
    token_budget: int | None = None,
    concurrency: int = 16,
    out: str | Path | None = None,
    resume: bool = False,
    retry_errors: bool = False,
    on_episode: OnEpisode | None = None,
) -> Run:
    """Let `agent` play tasks of `envs` and return the run. Equal arguments give equal episodes, at any concurrency.

    Args:
        agent: a name (``adaplan``, ``react``, ``module:attr`` ...), an agent, or a function from observation to action.
        envs: names or ids, or ``all`` that are installed.
        model: a spec string, which is loaded and closed here, or a model; for agents that take one.
        agent_settings: further keywords of the agent.
        split: of which tasks.
        episodes: tasks of each environment, spread over the split; None for all.
        tasks: ids of the tasks to play, instead of `split` and `episodes`; `envs` may then stay ``all``.
        max_difficulty: leave out harder tasks, see `Task`.
        repeats: attempts at each task.
        seed: of everything; each episode gets its own from it.
        max_steps: limit of actions; None takes each environment's own.
        env_settings: further keywords of the environments, such as ``{"rules": "agentgym"}``.
        deadline: wall-clock seconds of one episode, see `run_episode`.
        token_budget: tokens of one episode, see `run_episode`.
        concurrency: episodes that run at once.
        out: folder for ``episodes.jsonl`` and ``results.json``; None keeps the run in memory.
        resume: go on with the run in `out`. Everything but `concurrency` must be as it was.
        retry_errors: with `resume`, play the episodes again that ended as error.
        on_episode: is told of every episode as it ends, and first of those that a resumed run found.

    Raises:
        ConfigError: a wrong name or number, or a run in `out` that was made otherwise.
        ModelAccessError: the model can't be used at all. What was finished is on disk.
        OutputError: `out` can't be written.
    """
    for name, number in {"repeats": repeats, "concurrency": concurrency, "episodes": episodes}.items():
        if number is not None and number < 1:
            raise ConfigError(f"{name} is {number}; it must be at least 1")
    if (resume or retry_errors) and (out is None or not resume):
        raise ConfigError("resume needs out, the folder of the run; retry_errors needs resume")
    pool = EnvPool(**env_keywords(env_settings, split=split, max_steps=max_steps))
    loaded = None if isinstance(model, str) else model
    try:
        # Before the model: a wrong name need not wait for it.
        chosen = _choose(pool, envs, split, episodes, tasks, max_difficulty)
        if isinstance(model, str):
            loaded = load_model(model)
        player = make_agent(agent, model=loaded, **(agent_settings or {}))
        config = {
            "agent": player.describe(),
            "envs": list(chosen),
            "split": split,
            "episodes": episodes,
            "tasks": None if tasks is None else [task.id for some in chosen.values() for task in some],
            "max_difficulty": max_difficulty,
            "repeats": repeats,
            "seed": seed,
            "max_steps": max_steps,
            "env_settings": dict(env_settings or {}),
            "deadline": deadline,
            "token_budget": token_budget,
        }
        jobs = [_Job(env_id, task.id, k) for env_id, some in chosen.items() for task in some for k in range(repeats)]
        session = _Session(pool, player, jobs, config, fingerprint(chosen), on_episode)
        return await session.run(out, resume, retry_errors, concurrency)
    finally:
        pool.close()
        if isinstance(model, str) and loaded is not None:
            await loaded.aclose()


evaluate = callable_from_sync_code(evaluate_async, "evaluate")
"""`evaluate_async` for code that is not async; it works in a notebook, whose loop is running, as well."""


class _Job(NamedTuple):
    env_id: str
    task_id: str
    repeat: int


def _choose(
    pool: EnvPool,
    envs: str | Sequence[str],
    split: str,
    episodes: int | None,
    tasks: str | Sequence[str] | None,
    max_difficulty: int | None,
) -> dict[str, list[Task]]:
    """Return the tasks to play by environment id, and meet every wrong name before anything is played."""
    chosen: dict[str, list[Task]] = {}
    left = None if tasks is None else list(dict.fromkeys(tasks.split(",") if isinstance(tasks, str) else tasks))
    if left is not None and envs == "all":  # only those that the tasks name need to be installed
        envs = [resolve_id(task_id.partition("/")[0]) for task_id in left]
    for env_id in resolve_envs(envs):
        env = pool.take(env_id)
        base = env.unwrapped
        assert isinstance(base, TextEnv)
        if left is None:
            ids = choose_tasks(base, split, episodes, max_difficulty)
        else:
            ids = [task_id for task_id in left if task_id.partition("/")[0] == base.name]
            left = [task_id for task_id in left if task_id not in ids]
        if ids:
            chosen[env_id] = [base.task(each) for each in ids]
        pool.give(env_id, env)
    if left:
        raise ConfigError(f"task {left[0]!r} belongs to none of {', '.join(resolve_envs(envs))}")
    if not chosen:
        raise ConfigError("no task to play")
    return chosen


class _Session:
    """One stretch of a run, from its start or resumption to its end or interruption."""

    def __init__(
        self,
        pool: EnvPool,
        agent: Agent,
        jobs: list[_Job],
        config: dict[str, Any],
        task_set: str,
        on_episode: OnEpisode | None,
    ) -> None:
        self.pool, self.agent, self.jobs, self.config, self.task_set = pool, agent, jobs, config, task_set
        self.on_episode = on_episode
        self.done: dict[EpisodeKey, Episode] = {}
        self.expert_steps: dict[tuple[str, str], int | None] = {}
        self.log: EpisodeLog | None = None

    async def run(self, out: str | Path | None, resume: bool, retry_errors: bool, concurrency: int) -> Run:
        folder = None if out is None else Path(out)
        earlier: list[dict[str, Any]] = []
        if folder is not None:
            if resume and (folder / EPISODES).exists() and (folder / EPISODES).stat().st_size:
                found = load_run(folder).results
                _check_same(found, self.config, self.task_set)
                earlier = found["sessions"]
            self.log = EpisodeLog(folder, resume)
        began, started, before = perf_counter(), datetime.now(UTC), 0

        def snapshot() -> dict[str, Any]:
            this = {
                "started": started.isoformat(timespec="seconds"),
                "seconds": round(perf_counter() - began, 3),
                "episodes": len(self.done) - before,
                "concurrency": concurrency,
                "commit": commit(),
                "versions": versions(),
            }
            results = {
                "complete": all(job in self.done for job in self.jobs),
                "config": self.config,
                "tasks_sha256": self.task_set,
                "sessions": [*earlier, this],
                "summary": summarise(self.done.values()),
            }
            if folder is not None:
                write_results(folder, results)
            return results

        try:
            for episode in self.log.found if self.log is not None else ():
                self.expert_steps[episode.env_id, episode.task_id] = episode.expert_steps
                if not (retry_errors and episode.stop_reason is StopReason.ERROR):
                    self._finish(episode)
            before = len(self.done)
            if folder is not None:
                snapshot()  # what a killed run is resumed by
            try:
                await self._play(concurrency)
            finally:
                results = snapshot()
        finally:
            if self.log is not None:
                self.log.close()
        if folder is not None:
            return Run(results, folder)
        return Run(results, episodes=[self.done[key] for key in sorted(self.done)])

    async def _play(self, concurrency: int) -> None:
        waiting = iter([job for job in self.jobs if job not in self.done])
        executor = ThreadPoolExecutor(concurrency, "adaplan-env")  # starts a thread only when a blocking env asks
        workers = [asyncio.create_task(self._work(waiting, executor)) for _ in range(min(concurrency, len(self.jobs)))]
        try:
            await asyncio.gather(*workers)
        finally:  # one has met an error that all would meet, or the run was interrupted
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            executor.shutdown(wait=False, cancel_futures=True)

    async def _work(self, waiting: Iterator[_Job], executor: Executor) -> None:
        for job in waiting:
            env = self.pool.take(job.env_id)
            task = job.env_id, job.task_id
            seed = self.config["seed"]
            if task not in self.expert_steps:
                self.expert_steps[task] = count_expert_steps(env, job.task_id, episode_seed(seed, *task, 0))
            episode = await run_episode(
                self.agent,
                env,
                job.task_id,
                episode_seed(seed, *job),
                repeat=job.repeat,
                deadline=self.config["deadline"],
                token_budget=self.config["token_budget"],
                expert_steps=self.expert_steps[task],
                executor=executor,
            )
            broken = episode.stop_reason in (StopReason.ERROR, StopReason.DEADLINE)
            self.pool.give(job.env_id, env, broken)
            if self.log is not None:
                self.log.append(episode)
                episode = dataclasses.replace(episode, turns=())  # they are on disk, and can be large
            self._finish(episode)

    def _finish(self, episode: Episode) -> None:
        self.done[episode.key] = episode
        if self.on_episode is not None:
            self.on_episode(episode, len(self.jobs))


def _check_same(results: dict[str, Any], config: dict[str, Any], task_set: str) -> None:
    old, new = _flat(results["config"]), _flat(config)
    changed = [
        f"{key}: {old.get(key, 'not set')!r} in the run, {new.get(key, 'not set')!r} now"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
    ]
    if not changed and results["tasks_sha256"] != task_set:
        changed = [
            "the tasks themselves, though their ids are the same: another version of this package or of its data"
        ]
    if changed:
        raise ConfigError(
            "can't resume, the run was made otherwise. "
            + "; ".join(changed)
            + ". Use the same settings or another --out"
        )


def _flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = list(value) if isinstance(value, tuple) else value
    return flat
