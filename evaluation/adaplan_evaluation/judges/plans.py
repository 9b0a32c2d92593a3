"""Frontier plans for the paper's stage 1: candidates first, then the best of them, each task's once and for all."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from adaplan_agents.adaplan import PlanRequest
from adaplan_agents.models import load_model
from adaplan_agents.parsing import parse_plan
from adaplan_agents.prompting import Prompts
from adaplan_envs.chat import Chat, Sampling, Usage
from adaplan_envs.core import TextEnv, stable_rng
from adaplan_envs.errors import ConfigError, NoPlanError, OutputError
from adaplan_evaluation.judges.arena import Arena
from adaplan_evaluation.judges.plan_quality import judge_plan
from adaplan_evaluation.judges.types import PLAN_PARTS


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan with its marks, 1 to 5 each; see `plan_quality.PlanQuality`."""

    steps: tuple[str, ...]
    correctness: float
    executability: float
    standardisation: float

    @property
    def rank(self) -> tuple[float, float, float, int]:
        """What the choice goes by: correctness, executability, format, then the shorter one."""
        return self.correctness, self.executability, self.standardisation, -len(self.steps)


class FrontierPlans:
    """A source of plans for `AdaPlanAgent` (``plan_source=FrontierPlans(...)``): one selected plan for each task.

    All candidates are made, played in the real environment (see `plan_quality`), and the best is kept: by correctness,
    then executability, then format. The plan is made in front of the first action and stays as it is for the whole
    episode; all episodes of a task share it, in this process and, with `cache`, in later ones.

    Args:
        source: ``expert`` (the environment's own: one candidate, offline), a model's spec string, or anything with
            ``async chat(messages, sampling)``.
        candidates: how many plans a model is asked for.
        sampling: how; the default has temperature 1 for several candidates, 0 for one. The seed is each call's own.
        env_settings: of the environments.
        cache: folder in which the chosen plans are kept.
        prompts: folder with prompt files that replace those of AdaPlan's planner.

    Attributes:
        usage: what the plans cost so far.

    Raises:
        ConfigError: no candidates, or several at temperature 0.
        UnknownNameError: no such model.
    """

    def __init__(
        self,
        source: Chat | str = "expert",
        *,
        candidates: int = 4,
        sampling: Sampling | None = None,
        env_settings: Mapping[str, Any] | None = None,
        cache: str | Path | None = None,
        prompts: str | Path | None = None,
    ) -> None:
        if candidates < 1:
            raise ConfigError(f"candidates is {candidates}; it must be 1 or more")
        self._owned = load_model(source) if isinstance(source, str) and source != "expert" else None
        self._model: Chat | None = self._owned if isinstance(source, str) else source
        self.candidates = candidates
        self.sampling = sampling or Sampling(temperature=1.0 if candidates > 1 else 0.0, max_tokens=1024)
        if self._model is not None and candidates > 1 and self.sampling.temperature == 0:
            raise ConfigError(f"candidates={candidates} at temperature 0 would all be equal; set one such as 1")
        self.usage = Usage()
        self._prompts = Prompts("adaplan", prompts)
        self._arena = Arena(env_settings)
        self._cache = None if cache is None else Path(cache)
        self._kept: dict[tuple[str, str], tuple[Candidate, ...]] = {}
        self._under_way: dict[tuple[str, str], asyncio.Future[tuple[Candidate, ...]]] = {}

    async def __call__(self, request: PlanRequest) -> Sequence[str]:
        """Return the task's plan in front of the first action, and afterwards what is left of it."""
        if request.actions:
            return request.plan.remaining
        briefing = request.briefing
        return (await self.plan(briefing.env_id, briefing.task_id)).steps

    async def plan(self, env_id: str, task_id: str) -> Candidate:
        """Return the best plan for a task.

        Raises:
            ModelError: the model gave no answer.
        """
        return max(await self.all_candidates(env_id, task_id), key=lambda each: each.rank)

    async def all_candidates(self, env_id: str, task_id: str) -> tuple[Candidate, ...]:
        """Return all candidates for a task with their marks, in the order in which they were made."""
        key = (env_id, task_id)
        if key in self._kept:
            return self._kept[key]
        if key not in self._under_way or self._under_way[key].done():
            # A group of rollouts asks for the same plan at the same moment: the others wait for the first.
            self._under_way[key] = asyncio.ensure_future(self._make(env_id, task_id))
        self._kept[key] = await asyncio.shield(self._under_way[key])
        return self._kept[key]

    def describe(self) -> dict[str, Any]:
        """Return what a result file should record of this source."""
        if self._model is None:
            return {"source": "expert"}
        describe = getattr(self._model, "describe", None)
        named = describe() if callable(describe) else str(getattr(self._model, "name", type(self._model).__name__))
        sampling = {key: getattr(self.sampling, key) for key in ("temperature", "top_p", "top_k", "max_tokens")}
        return {"source": named, "candidates": self.candidates, "sampling": sampling}

    async def aclose(self) -> None:
        """Release environments and, where it was named by a string, the model."""
        self._arena.close()
        if self._owned is not None:
            await self._owned.aclose()

    async def _make(self, env_id: str, task_id: str) -> tuple[Candidate, ...]:
        with self._arena.borrow(env_id) as env:
            # A plan belongs to a task, whatever the episode's seed: that changes the order of a list at most.
            observation, info = env.reset(seed=0, options={"task_id": task_id})
            messages = self._messages(env, str(info["goal"]), observation)
            path = self._path(env_id, task_id, messages)
            if (kept := _read(path)) is not None:
                return kept
            start = env.snapshot()
        texts = await self._texts(env_id, task_id, messages)
        with self._arena.borrow(env_id) as env:
            env.restore(start)
            found = []
            for steps, text in texts if texts is not None else [(_expert_plan(env), None)]:
                quality = judge_plan(env, steps, text)
                found.append(Candidate(tuple(steps), *(getattr(quality, name) for name in PLAN_PARTS)))
        _write(path, found)
        return tuple(found)

    def _messages(self, env: TextEnv, goal: str, observation: str) -> list[dict[str, str]]:
        before, after = self._prompts.around("observe", "observation")
        order = self._prompts.render("plan", next=1, done=0)
        return [
            {"role": "system", "content": self._prompts.render("planner", rules=env.rules, goal=goal)},
            {"role": "user", "content": f"{before}{observation}{after}\n\n{order}"},
        ]

    async def _texts(
        self, env_id: str, task_id: str, messages: list[dict[str, str]]
    ) -> list[tuple[tuple[str, ...], str | None]] | None:
        if self._model is None:
            return None
        model = self._model
        seeds = [stable_rng("frontier plan", env_id, task_id, n).getrandbits(31) for n in range(self.candidates)]
        replies = await asyncio.gather(*(model.chat(messages, replace(self.sampling, seed=seed)) for seed in seeds))
        self.usage = sum((reply.usage for reply in replies), self.usage)
        return [(parse_plan(reply.text).steps, reply.text) for reply in replies]

    def _path(self, env_id: str, task_id: str, messages: list[dict[str, str]]) -> Path | None:
        if self._cache is None:
            return None
        content = json.dumps(
            [env_id, task_id, self._arena.settings, self.describe(), messages], sort_keys=True, default=str
        )
        name = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
        return self._cache / name[:2] / f"{name}.json"


def _expert_plan(env: TextEnv) -> list[str]:
    try:
        return env.expert.plan()
    except NoPlanError:
        return []


def _read(path: Path | None) -> tuple[Candidate, ...] | None:
    if path is None:
        return None
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return tuple(Candidate(tuple(each.pop("steps")), **each) for each in kept)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # one that can't be read is as good as none
        return None


def _write(path: Path | None, candidates: Sequence[Candidate]) -> None:
    if path is None:
        return
    record = [{"steps": each.steps, **{name: getattr(each, name) for name in PLAN_PARTS}} for each in candidates]
    temporary = path.with_suffix(f".{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(record), encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise OutputError(f"can't write {path}: {error.strerror}") from error
