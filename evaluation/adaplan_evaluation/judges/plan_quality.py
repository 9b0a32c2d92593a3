"""How good a plan is, found out by playing it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from adaplan_agents.parsing import parse_plan
from adaplan_envs.core import TextEnv
from adaplan_envs.errors import JudgeError
from adaplan_envs.types import ActionStatus
from adaplan_evaluation.judges.reading import commands, suggests_several
from adaplan_evaluation.types import Episode, Turn

MAX_PLANS = 8
"""Of more plans in one episode, that many are judged, evenly spread, the first and the last among them."""
_LONGEST_STEP = 40
"""Words; a longer one is no step but a paragraph."""


class PlayedStep(NamedTuple):
    """A step of a plan, as it was played.

    Attributes:
        step: the step's words.
        command: what it was read as; empty where nothing could be read from it.
        status: what became of it. ``ok`` makes the step executable.
        standard: whether it is one line of reasonable length that names exactly one command.
    """

    step: str
    command: str
    status: ActionStatus
    standard: bool


@dataclass(frozen=True, slots=True)
class PlanQuality:
    """The marks of one plan, 1 (worst) to 5.

    Attributes:
        correctness: 5 if it reaches the goal, else 1 + 3 x the share of the way left to the goal that it gets.
        executability: 1 + 4 x the share of its steps that are possible and do something when their turn comes.
        standardisation: 1 + 4 x the share of its steps that are one line and exactly one command; the 4 is halved where
            the planner's text is not a numbered list and nothing else.
        steps: the steps that were played; those behind the end of the episode were not.
        success: whether it reaches the goal.
    """

    correctness: float
    executability: float
    standardisation: float
    steps: tuple[PlayedStep, ...] = ()
    success: bool = False

    @property
    def total(self) -> float:
        """The sum of the marks, 3 to 15."""
        return self.correctness + self.executability + self.standardisation


def judge_plan(env: TextEnv, steps: Sequence[str], text: str | None = None) -> PlanQuality:
    """Play `steps` from the present state of `env`, go back to that state, and return the plan's marks.

    A step that can't be played is skipped, and the next one is tried. See `reading` for how a step becomes a command.

    Args:
        env: an environment with an episode that has not ended; the real one, as a twin's answers would be played too.
        steps: the plan, in words.
        text: what the planner wrote, to be held against the plan's format; None where the steps are all there is.
    """
    start = env.snapshot()
    before = best = float(start.info["score"])
    played: list[PlayedStep] = []
    success = False
    for step in steps:
        command, info = _play(env, step)
        played.append(PlayedStep(step, command, _status(info), _is_standard(env, step, info)))
        if info is not None:
            best, success = max(best, float(info["score"])), bool(info["success"])
            if info["stop_reason"] is not None:
                break
    env.restore(start)
    if not played:
        return PlanQuality(1.0, 1.0, 1.0)
    way = (best - before) / (1 - before) if before < 1 else 0.0
    executable = sum(each.status is ActionStatus.OK for each in played) / len(played)
    standard = sum(each.standard for each in played) / len(played)
    strict = text is None or parse_plan(text).strict
    return PlanQuality(
        correctness=5.0 if success else 1 + 3 * way,
        executability=1 + 4 * executable,
        standardisation=1 + 4 * standard * (1.0 if strict else 0.5),
        steps=tuple(played),
        success=success,
    )


def _play(env: TextEnv, step: str) -> tuple[str, dict[str, Any] | None]:
    """Play what `step` means, and return the command and the info; None where it means nothing.

    Of several readings, the first that does something is kept; else the first that is at least allowed or understood.
    """
    readings = commands(env, step)
    if not readings:
        return "", None
    start = env.snapshot()
    order = (ActionStatus.NO_EFFECT, ActionStatus.INVALID, ActionStatus.UNPARSED)
    fallback: tuple[int, str] | None = None
    for reading in readings:
        *_, info = env.step(reading)
        if info["action_status"] is ActionStatus.OK or len(readings) == 1:
            return info["action"], info
        env.restore(start)
        rank = order.index(info["action_status"])
        if fallback is None or rank < fallback[0]:
            fallback = rank, reading
    assert fallback is not None
    *_, info = env.step(fallback[1])
    return info["action"], info


def _status(info: dict[str, Any] | None) -> ActionStatus:
    return ActionStatus.UNPARSED if info is None else ActionStatus(info["action_status"])


def _is_standard(env: TextEnv, step: str, info: dict[str, Any] | None) -> bool:
    return (
        _status(info) is not ActionStatus.UNPARSED
        and len(step.splitlines()) == 1
        and len(step.split()) <= _LONGEST_STEP
        and not suggests_several(env.name, step)
    )


# -- the plans of an episode ----------------------------------------------------------------------------------------


class WrittenPlan(NamedTuple):
    """A plan at the moment that it was written.

    Attributes:
        turn: number of actions played before, which is the turn's position.
        steps: those that were still to come.
        text: what the planner wrote, or None where that is not recorded.
    """

    turn: int
    steps: tuple[str, ...]
    text: str | None


def written_plans(episode: Episode) -> list[WrittenPlan]:
    """Return the plans of an episode: the first, and each revision that changed what was still to come."""
    found: list[WrittenPlan] = []
    expected: tuple[str, ...] | None = None
    for position, turn in enumerate(episode.turns):
        if turn.plan is None:
            continue
        steps = remaining(turn)
        if steps != expected:
            texts = [str(call["text"]) for call in turn.trace if call.get("role") == "planner" and "text" in call]
            # Of several candidates, the one whose steps were taken; the call that selects among them has none.
            text = next((each for each in texts if steps and parse_plan(each).steps[-len(steps) :] == steps), None)
            found.append(WrittenPlan(position, steps, text))
        expected = steps[1:]
    return found


def remaining(turn: Turn) -> tuple[str, ...]:
    """Return the steps of the plan in force that were still to come in front of this turn's action."""
    return () if turn.plan is None or turn.plan_step is None else turn.plan[turn.plan_step - 1 :]


def judge_plans(env: TextEnv, episode: Episode) -> Iterator[tuple[WrittenPlan, PlanQuality]]:
    """Play each plan of `episode` from the state in which it was written, and yield it with its marks.

    Raises:
        JudgeError: the recorded actions lead elsewhere in `env`: it has other settings, or is another version.
    """
    plans = written_plans(episode)
    if len(plans) > MAX_PLANS:
        plans = [plans[round(k * (len(plans) - 1) / (MAX_PLANS - 1))] for k in range(MAX_PLANS)]
    env.reset(seed=episode.seed, options={"task_id": episode.task_id})
    played = 0
    for plan in plans:
        for position in range(played, plan.turn):
            turn = episode.turns[position]
            *_, info = env.step(turn.action)
            same = (info["action"], info["score"]) == (turn.command, turn.score)
            if info["stop_reason"] is not None or (not same and episode.backend == "real"):
                raise JudgeError(
                    f"{episode.task_id} can't be replayed: action {position + 1} ({turn.action!r}) leads elsewhere. "
                    "Give the judge the environment settings and the version of the run"
                )
        played = plan.turn
        yield plan, judge_plan(env, plan.steps, plan.text)
