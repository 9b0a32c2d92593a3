"""The rules judge: exact, from the simulator, at no cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from adaplan_envs.errors import ConfigError, JudgeError
from adaplan_envs.types import ActionStatus
from adaplan_evaluation.judges import reading
from adaplan_evaluation.judges.arena import Arena
from adaplan_evaluation.judges.plan_quality import judge_plans
from adaplan_evaluation.judges.types import PLAN_PARTS, Judge, Judgement, failed, scored, unjudged
from adaplan_evaluation.types import Episode

SLACK = 0.5


class RulesJudge(Judge):
    """Judges by what the simulator says.

    Args:
        slack: ``e2e`` is 2 up to ``1 + slack`` times the expert's steps.
        env_settings: of the environments in which the episodes were played, such as ``{"rules": "agentgym"}``; plans
            are played in such ones, always real.

    Raises:
        ConfigError: a negative slack.
    """

    name = "rules"

    def __init__(self, *, slack: float = SLACK, env_settings: Mapping[str, Any] | None = None) -> None:
        if not slack >= 0:
            raise ConfigError(f"slack is {slack}; it must be 0 or more")
        self.slack = slack
        self._arena = Arena(env_settings)

    def judge_now(self, episode: Episode, terms: Sequence[str]) -> dict[str, Judgement]:
        """Return the judgement of each of `terms`; `judge` for code that is not async."""
        rules = {
            "format": judge_format,
            "adherence": judge_adherence,
            "e2e": self._judge_e2e,
            "plan_quality": self._judge_plan_quality,
        }
        return {term: unjudged(episode, term) or rules[term](episode) for term in terms}

    async def judge(self, episode: Episode, terms: Sequence[str]) -> dict[str, Judgement]:
        return self.judge_now(episode, terms)

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "slack": self.slack, "env_settings": self._arena.settings}

    async def aclose(self) -> None:
        self._arena.close()

    def _judge_e2e(self, episode: Episode) -> Judgement:
        expert = episode.expert_steps
        if expert is None and episode.success:
            commands = self._arena.expert_commands(episode)
            expert = None if commands is None else len(commands)
        return judge_e2e(episode, expert, self.slack)

    def _judge_plan_quality(self, episode: Episode) -> Judgement:
        try:
            with self._arena.borrow(episode.env_id) as env:
                marks = [quality for _, quality in judge_plans(env, episode)]
        except JudgeError as error:
            return failed(str(error))
        parts = {name: fmean(getattr(quality, name) for quality in marks) for name in PLAN_PARTS}
        reached = sum(quality.success for quality in marks)
        reason = f"{reached} of {len(marks)} plans played reach the goal from where they were written"
        return scored("plan_quality", sum(parts.values()), reason, parts)


def judge_format(episode: Episode) -> Judgement:
    """Return 1 if every response keeps the format strictly and an action could be read from it, else 0."""
    bad = [number for number, turn in enumerate(episode.turns, 1) if not (turn.well_formed and turn.action)]
    if not bad:
        return scored("format", 1, f"all {len(episode.turns)} responses keep the format")
    return scored("format", 0, f"{len(bad)} of {len(episode.turns)} responses do not, the first in turn {bad[0]}")


def judge_adherence(episode: Episode) -> Judgement:
    """Return the mean over actions of 2 (what the step says), 1 (in part), 0 (something else, or no step was left)."""
    planned = [(number, turn) for number, turn in enumerate(episode.turns, 1) if turn.plan is not None]
    env = episode.task_id.partition("/")[0]
    scores: dict[str, float] = {}
    worst: tuple[int, str] | None = None
    for number, turn in planned:
        if turn.plan_step is None:
            score, why = 0, "the plan had no step for it"
        elif turn.action_status is ActionStatus.UNPARSED:
            score, why = 0, "not a command"
        else:
            score, why = reading.adherence(env, (turn.plan or ())[turn.plan_step - 1], turn.command)
        scores[str(number)] = score
        if score < 2 and (worst is None or score < scores[str(worst[0])]):
            worst = number, why
    full = sum(score == 2 for score in scores.values())
    reason = f"{full} of {len(scores)} actions do what their step says"
    if worst is not None:
        reason += f"; turn {worst[0]}: {worst[1]}"
    return scored("adherence", fmean(scores.values()), reason, scores)


def judge_e2e(episode: Episode, expert_steps: int | None, slack: float = SLACK) -> Judgement:
    """Return 2 (success in at most ``1 + slack`` times the expert's steps), 1 (success in more), 0 (no success).

    Where nobody knows how many steps an expert needs, the episode's own actions that did something stand in for them.
    """
    if not episode.success:
        return scored("e2e", 0, f"not solved ({episode.stop_reason})")
    if expert_steps is not None:
        reference, source = expert_steps, f"the expert's {expert_steps}"
    else:
        reference = sum(turn.action_status is ActionStatus.OK for turn in episode.turns)
        source = f"its {reference} actions that did something (no expert known)"
    limit = int((1 + slack) * reference + 1e-9)
    score = 2 if episode.steps <= limit else 1
    return scored("e2e", score, f"solved in {episode.steps} steps; efficient is up to {limit}, from {source}")
