"""Judges by spec string, and judges that vote."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median, median_low
from typing import Any

from adaplan_envs.errors import ConfigError
from adaplan_evaluation.judges.llm import LLMJudge
from adaplan_evaluation.judges.rules import RulesJudge
from adaplan_evaluation.judges.types import Judge, Judgement, failed, scored
from adaplan_evaluation.types import Episode


class Panel(Judge):
    """Several judges that vote: the median of their scores. Those that fail are left out; half or more must not.

    Args:
        judges: two or more.

    Raises:
        ConfigError: fewer.
    """

    def __init__(self, judges: Sequence[Judge]) -> None:
        if len(judges) < 2:
            raise ConfigError("a panel needs two judges or more")
        self.judges = tuple(judges)
        self.name = "+".join(judge.name for judge in judges)

    async def judge(self, episode: Episode, terms: Sequence[str]) -> dict[str, Judgement]:
        votes = await asyncio.gather(*(judge.judge(episode, terms) for judge in self.judges))
        return {term: self._vote(term, [vote[term] for vote in votes]) for term in terms}

    def _vote(self, term: str, votes: Sequence[Judgement]) -> Judgement:
        fine = [vote for vote in votes if vote.score is not None]
        if not fine:
            return votes[0]
        if 2 * len(fine) <= len(votes):
            return failed(f"only {len(fine)} of {len(votes)} judges gave a score")
        middle = median_low if term in ("format", "e2e") else median  # whose scores are steps, not a scale
        parts = {key: median(vote.parts[key] for vote in fine) for key in fine[0].parts}
        score = sum(parts.values()) if term == "plan_quality" else middle([vote.score or 0.0 for vote in fine])
        listed = ", ".join("error" if vote.score is None else f"{vote.score:g}" for vote in votes)
        return scored(term, score, f"median of {listed}", parts)

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "judges": [judge.describe() for judge in self.judges]}

    async def aclose(self) -> None:
        for judge in self.judges:
            await judge.aclose()


def load_judge(
    spec: str | Sequence[str],
    *,
    env_settings: Mapping[str, Any] | None = None,
    prompts: str | Path | None = None,
    cache: str | Path | None = None,
    slack: float | None = None,
) -> Judge:
    """Return the judge that `spec` names: ``rules``, a model's spec string, or several, which vote.

    Args:
        spec: see above.
        env_settings: of the episodes.
        prompts: of LLM judges.
        cache: folder in which the answers of a server are kept, so that judging again costs nothing.
        slack: of the rules judge.

    Raises:
        UnknownNameError: no such model, or it runs here and takes no cache.
        ConfigError: no judge.
        ModelAccessError: there is no access to the model.
    """
    specs = [spec] if isinstance(spec, str) else list(spec)
    if not specs:
        raise ConfigError("which judge? Give rules, or a model such as openai:NAME")
    if len(specs) > 1:
        return Panel(
            [load_judge(each, env_settings=env_settings, prompts=prompts, cache=cache, slack=slack) for each in specs]
        )
    if specs[0] == "rules":
        options = {} if slack is None else {"slack": slack}
        return RulesJudge(env_settings=env_settings, **options)
    return LLMJudge(specs[0], env_settings=env_settings, prompts=prompts, cache=cache)
