"""The vocabulary of the suite, on one page.

- A **task** is one problem with a stable id, ``env/split/index`` (``textcraft/test/0017``). It never changes.
- A **split** is a named, ordered collection of tasks: ``train``, ``test``, or an official one such as ``valid_unseen``.
- An **episode** is one attempt at a task: an observation, then actions and observations until it ends.
- A **ruleset** says by whose rules an environment plays: ``default``, or those of a reference implementation
  (``agentgym``, ``lmrl``), whose quirks it then keeps so that recorded runs replay exactly.
- The **expert** knows the simulator's state and solves what can still be solved.
- **Success** is ``info["success"]`` and nothing else; a reward is never read as success.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, TypedDict, runtime_checkable


class ActionStatus(StrEnum):
    """What became of an action."""

    OK = "ok"
    """Understood, and it changed or revealed something."""
    NO_EFFECT = "no_effect"
    """Understood and allowed, but nothing changed (a bump into a wall)."""
    INVALID = "invalid"
    """Understood, but not possible now (an ingredient is missing)."""
    UNPARSED = "unparsed"
    """Not a command of this environment."""


class StopReason(StrEnum):
    """Why an episode ended. Environments set the first three, the runner and the models the others."""

    SUCCESS = "success"
    FAILURE = "failure"
    """Terminated without success: a dead end, a wrong final answer, no tries left."""
    MAX_STEPS = "max_steps"
    ERROR = "error"
    """The environment, the model or the agent raised; the episode is kept as data and counted apart."""
    DEADLINE = "deadline"
    """The wall-clock limit of one episode."""
    CONTEXT = "context"
    """The next turn would not fit the model's window."""
    BUDGET = "budget"
    """A token or cost budget is spent."""


@dataclass(frozen=True, slots=True)
class Task:
    """One problem.

    Attributes:
        id: stable name, ``env/split/index`` with four digits or more.
        split: the split that it belongs to.
        index: its position there, from 0.
        goal: what is to be achieved, in a sentence that an agent can be told.
        difficulty: larger is harder; comparable within one environment only.
        data: what the environment needs to build the episode. Picklable.
    """

    id: str
    split: str
    index: int
    goal: str
    difficulty: int
    data: Any = None


class Outcome(NamedTuple):
    """What an environment's rules say of one action. `TextEnv.step` turns it into Gymnasium's five values."""

    observation: str
    status: ActionStatus
    action: str
    """The command as understood, in its canonical spelling; the text as given where it was not understood."""
    success: bool = False
    failed: bool = False
    """The episode is over without success."""
    truncated: bool = False
    """A budget of the environment's own is spent, other than `TextEnv.max_steps`."""


class StepInfo(TypedDict):
    """The keys of ``info``, the same in every environment, after `reset` and after every `step`.

    An environment may add keys of its own; it names them in `TextEnv.extra_info` and sets them in every step.
    """

    task_id: str
    split: str
    goal: str
    success: bool
    score: float
    """Progress in [0, 1]; 1.0 exactly when the goal is reached."""
    admissible_actions: list[str] | None
    """Computed only for ``gym.make(..., admissible_actions=True)``, else None."""
    action_status: ActionStatus
    action: str
    """The command as understood; empty after `reset`."""
    steps: int
    max_steps: int
    stop_reason: StopReason | None
    """None until the last step."""
    backend: str
    """``real``, or who simulates the environment; see `TextEnv.backend`."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A picklable branch point of an episode: `TextEnv.snapshot` makes it, `TextEnv.restore` goes back to it."""

    env: str
    ruleset: str
    task: Task
    seed: int
    state: Any
    observation: str
    info: dict[str, Any]
    done: bool


@runtime_checkable
class Expert(Protocol):
    """A player that sees the simulator's state. Always plans from the current state, whatever was done before."""

    def plan(self) -> list[str]:
        """The remaining steps in words, one for each command; the first describes `action`.

        Raises:
            NoPlanError: the goal can't be reached any more.
        """

    def action(self) -> str:
        """The next command.

        Raises:
            NoPlanError: the goal can't be reached any more.
        """
