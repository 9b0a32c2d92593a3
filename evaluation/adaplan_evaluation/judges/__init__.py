"""Judges: format, adherence, end-to-end result and plan quality of episodes.

>>> judgements = judge_episode(episode, ["e2e", "plan_quality"])  # by the rules
>>> judgements["e2e"].value  # on [0, 1], None where the term does not apply or the judge failed
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from adaplan_envs.errors import ConfigError, check_name
from adaplan_evaluation.judges.llm import LLMJudge
from adaplan_evaluation.judges.panel import Panel, load_judge
from adaplan_evaluation.judges.plan_quality import PlanQuality, judge_plan
from adaplan_evaluation.judges.plans import FrontierPlans
from adaplan_evaluation.judges.rules import RulesJudge
from adaplan_evaluation.judges.types import TERMS, Judge, Judgement, JudgementStatus
from adaplan_evaluation.loops import run_sync
from adaplan_evaluation.types import Episode

__all__ = [
    "TERMS",
    "FrontierPlans",
    "Judge",
    "Judgement",
    "JudgementStatus",
    "LLMJudge",
    "Panel",
    "PlanQuality",
    "RulesJudge",
    "judge_episode",
    "judge_episodes",
    "judge_plan",
    "load_judge",
]


def judge_episode(
    episode: Episode, terms: Sequence[str] = tuple(TERMS), judge: str | Judge = "rules"
) -> dict[str, Judgement]:
    """Return the judgement of each of `terms`, for code that is not async; see `judge_episodes`.

    Raises:
        ConfigError: no such term or judge.
        ModelAccessError: the model behind the judge can't be used at all.
    """
    terms, judge = _checked(terms, judge)
    if isinstance(judge, RulesJudge):
        return judge.judge_now(episode, terms)
    return run_sync(lambda: judge.judge(episode, terms))


async def judge_episodes(
    episodes: Iterable[Episode],
    terms: Sequence[str] = tuple(TERMS),
    judge: str | Judge = "rules",
    concurrency: int = 16,
    on_episode: Callable[[int], None] | None = None,
) -> list[dict[str, Judgement]]:
    """Return the judgements of many episodes, in their order.

    Args:
        episodes: with their turns.
        terms: some of `TERMS`.
        judge: ``rules``, or a `Judge`.
        concurrency: episodes that are judged at once.
        on_episode: is told how many episodes there are, once for each that is judged.

    Raises:
        ConfigError: no such term or judge, or no concurrency.
        ModelAccessError: the model behind the judge can't be used at all.
    """
    if concurrency < 1:
        raise ConfigError(f"concurrency is {concurrency}; it must be at least 1")
    terms, judge = _checked(terms, judge)
    gate = asyncio.Semaphore(concurrency)

    async def one(episode: Episode) -> dict[str, Judgement]:
        async with gate:
            found = await judge.judge(episode, terms)
        if on_episode is not None:
            on_episode(len(tasks))
        return found

    tasks = [asyncio.create_task(one(episode)) for episode in episodes]
    try:
        return await asyncio.gather(*tasks)
    finally:  # the model can't be used at all: the others need not ask it too
        for task in tasks:
            task.cancel()


@lru_cache(maxsize=1)
def _rules() -> RulesJudge:
    return RulesJudge()


def _checked(terms: Sequence[str], judge: str | Judge) -> tuple[Sequence[str], Judge]:
    for term in terms:
        check_name("term", term, TERMS)
    if isinstance(judge, str):
        check_name("judge", judge, ("rules",))
        judge = _rules()
    return terms, judge
