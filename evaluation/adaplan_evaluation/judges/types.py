"""What a judge says: the terms, their scales, and a judgement.

| term | raw score | what it asks |
| --- | --- | --- |
| ``format`` | 0 or 1 | Does every response keep the format? |
| ``adherence`` | 0 to 2, a mean over actions | Does each action do what the plan's step for it says? |
| ``e2e`` | 0, 1 or 2 | Was the goal reached, and without redundancy? |
| ``plan_quality`` | 3 to 15 | Correctness, executability and standardisation of the plans, 1 to 5 each, added up. |

The terms and scales are those of the PilotRL paper (arXiv 2508.00344). `Judgement.value` is the same on [0, 1].
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from adaplan_envs.types import StopReason
from adaplan_evaluation.types import Episode

TERMS: Mapping[str, tuple[float, float]] = MappingProxyType(
    {"format": (0.0, 1.0), "adherence": (0.0, 2.0), "e2e": (0.0, 2.0), "plan_quality": (3.0, 15.0)}
)
"""Term -> lowest and highest raw score."""

PLAN_PARTS = ("correctness", "executability", "standardisation")
"""What ``plan_quality`` is made of."""


class JudgementStatus(StrEnum):
    """Whether there is a score."""

    OK = "ok"
    ERROR = "error"
    """The judge failed, or there was nothing that could be judged fairly. Mask it out and count it; it is no 0."""
    NOT_APPLICABLE = "not_applicable"
    """The term makes no sense here: adherence of an agent without plans."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """One term of one episode.

    Attributes:
        status: whether there is a score.
        score: on the term's own scale, or None.
        reason: why, in a sentence.
        value: the score on [0, 1], or None: what a reward is made of.
        parts: what the score is made of, by name; for ``adherence`` the score of each action under its turn's number.
    """

    status: JudgementStatus
    score: float | None
    reason: str
    value: float | None = None
    parts: Mapping[str, float] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether there is a score."""
        return self.status is JudgementStatus.OK


def scored(term: str, score: float, reason: str, parts: Mapping[str, float] | None = None) -> Judgement:
    """Return a judgement with a score on the scale of `term`."""
    low, high = TERMS[term]
    return Judgement(JudgementStatus.OK, score, reason, (score - low) / (high - low), dict(parts or {}))


def failed(reason: str) -> Judgement:
    """Return a judgement without a score, because judging failed."""
    return Judgement(JudgementStatus.ERROR, None, reason)


def not_applicable(reason: str) -> Judgement:
    """Return a judgement without a score, because the term does not apply."""
    return Judgement(JudgementStatus.NOT_APPLICABLE, None, reason)


def unjudged(episode: Episode, term: str) -> Judgement | None:
    """Return why `term` can't be judged in this episode, the same for every judge; None where it can."""
    if episode.stop_reason is StopReason.ERROR:
        what = episode.error.type if episode.error else "error"
        return failed(f"the episode ended as error ({what}), which says nothing of the agent")
    if term == "e2e":
        return None
    if not episode.turns:
        return not_applicable("the agent said nothing")
    if term == "format":
        return None
    if all(turn.plan is None for turn in episode.turns):
        return not_applicable("the agent makes no plans")
    steps = [turn.plan_step for turn in episode.turns if turn.plan_step is not None]
    if any(after <= before for before, after in pairwise(steps)):  # MPO's never moves on
        return not_applicable("the plan is general guidance, not one step for each action")
    return None


class Judge(ABC):
    """Scores episodes.

    Attributes:
        name: for tables and results.
    """

    name: str

    @abstractmethod
    async def judge(self, episode: Episode, terms: Sequence[str]) -> dict[str, Judgement]:
        """Return the judgement of each of `terms`. What goes wrong is a judgement with status ``error``.

        Raises:
            ModelAccessError: the model behind it can't be used at all.
        """

    def describe(self) -> dict[str, Any]:
        """Return what a result file should record of this judge. JSON types only, no secrets."""
        return {"name": self.name}

    async def aclose(self) -> None:  # noqa: B027 - optional
        """Release what the judge holds. Calling it twice is fine."""
