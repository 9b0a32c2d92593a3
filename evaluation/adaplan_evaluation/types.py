"""What an evaluation produces.

- A **turn** is one observation and the agent's answer to it.
- An **episode** is one attempt at a task: its turns, how it ended, what it cost. One JSON line.
- A **run** is a folder: ``episodes.jsonl``, a line for each episode as it ended, and ``results.json``, the summary with
  everything that is needed to repeat it.
- An episode that ended as **error** says nothing about the agent: it is kept, counted apart, and left out of every
  rate. One that ran into a limit (steps, deadline, budget, context) is a failure of the agent and stays in.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any

from adaplan_agents.types import Usage
from adaplan_envs.core import stable_rng
from adaplan_envs.types import ActionStatus, StopReason


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn.

    Attributes:
        observation: what the agent saw.
        raw: its response as the model gave it.
        thought: the reasoning in front of the action, or None.
        action: the action that was played.
        command: the action as the environment understood it.
        action_status: what became of it.
        plan: the steps of the plan in force, or None.
        plan_step: number of the step, from 1, that guided the action; None without a plan or where it was used up.
        well_formed: whether the response kept the format strictly.
        score: progress after the action, in [0, 1].
        usage: cost of the turn.
        trace: the model calls of the turn, in order.
    """

    observation: str
    raw: str
    thought: str | None
    action: str
    command: str
    action_status: ActionStatus
    plan: tuple[str, ...] | None
    plan_step: int | None
    well_formed: bool
    score: float
    usage: Usage
    trace: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an episode ended as error.

    Attributes:
        type: name of the exception's class.
        message: its text.
        traceback: as Python prints it.
    """

    type: str
    message: str
    traceback: str = ""

    def __str__(self) -> str:
        lines = self.message.splitlines()
        return f"{self.type}: {lines[0]}" if lines else self.type


@dataclass(frozen=True, slots=True)
class Episode:
    """One attempt at a task; `to_json` and `from_json` are the line in ``episodes.jsonl``.

    Attributes:
        env_id: Gymnasium id.
        task_id: stable task id.
        repeat: which attempt at this task, from 0.
        seed: of environment and agent; ``run_episode`` with it plays the same episode again.
        goal: what was to be achieved.
        success: whether it was achieved.
        score: progress at the end, in [0, 1].
        steps: actions played.
        max_steps: limit of actions.
        expert_steps: actions that the expert needs from the start, or None where it isn't known.
        stop_reason: why the episode ended.
        statuses: action status -> number of actions.
        well_formed: number of turns whose response kept the format strictly.
        usage: cost of all turns.
        seconds: wall-clock time, waiting for other episodes included.
        backend: ``real``, or what simulated the environment.
        error: set when `stop_reason` is ``error``.
        turns: every turn. Empty in the episodes that `evaluate` keeps in memory when it writes them to disk.
        observation: the last one, to which no action was given.
    """

    env_id: str
    task_id: str
    repeat: int
    seed: int
    goal: str
    success: bool
    score: float
    steps: int
    max_steps: int
    expert_steps: int | None
    stop_reason: StopReason
    statuses: dict[str, int]
    well_formed: int
    usage: Usage
    seconds: float
    backend: str = "real"
    error: Failure | None = None
    turns: tuple[Turn, ...] = ()
    observation: str = ""

    @property
    def key(self) -> EpisodeKey:
        """What tells this episode from the others of a run."""
        return self.env_id, self.task_id, self.repeat

    def to_json(self) -> str:
        """Return the episode as one line of JSON, without the newline."""
        line = json.dumps(_plain(self), ensure_ascii=False, default=str)
        try:
            line.encode()
        except UnicodeEncodeError:  # half a surrogate pair in a model's answer can only be written escaped
            line = json.dumps(_plain(self), default=str)
        return line

    @classmethod
    def from_json(cls, line: str) -> Episode:
        """Return the episode of a line.

        Raises:
            ValueError: the line is not an episode.
        """
        try:
            record = json.loads(line)
            record["stop_reason"] = StopReason(record["stop_reason"])
            record["usage"] = Usage(**record["usage"])
            record["error"] = Failure(**record["error"]) if record["error"] else None
            record["turns"] = tuple(_turn(turn) for turn in record["turns"])
            return cls(**record)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not an episode: {error}") from error


EpisodeKey = tuple[str, str, int]
"""``(env_id, task_id, repeat)``."""


def _turn(record: dict[str, Any]) -> Turn:
    record["action_status"] = ActionStatus(record["action_status"])
    record["usage"] = Usage(**record["usage"])
    record["plan"] = tuple(record["plan"]) if record["plan"] is not None else None
    record["trace"] = tuple(record["trace"])
    return Turn(**record)


def _plain(record: Episode | Turn) -> dict[str, Any]:
    # dataclasses.asdict copies every nested value; a long episode has thousands.
    plain = {each.name: getattr(record, each.name) for each in fields(record)}
    usage: Usage = plain["usage"]
    plain["usage"] = {each.name: getattr(usage, each.name) for each in fields(usage)}
    if isinstance(record, Episode):
        plain["turns"] = [_plain(turn) for turn in record.turns]
        error = record.error
        plain["error"] = {each.name: getattr(error, each.name) for each in fields(error)} if error else None
    return plain


def episode_seed(seed: int, env_id: str, task_id: str, repeat: int) -> int:
    """Return the seed of one episode of a run: different for each, the same on any machine and in any order."""
    return stable_rng("episode", seed, env_id, task_id, repeat).getrandbits(31)
