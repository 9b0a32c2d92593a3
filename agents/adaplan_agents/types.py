"""What an agent is.

- An **agent** is configuration: it holds models, prompts and settings, and serves any number of episodes at once.
- A **session** is one episode of it: ``session = agent.start(briefing)``, then ``await session.act(observation)`` for
  every observation. All that an episode remembers is in its session.
- A **decision** is one turn: the action to play, and everything that a judge, a trace or a trainer wants to know.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from adaplan_envs.chat import Usage

if TYPE_CHECKING:
    from adaplan_agents.plan import Plan
    from adaplan_envs import TextEnv

__all__ = ["Agent", "Briefing", "Decision", "Session", "Usage"]


@dataclass(frozen=True, slots=True)
class Briefing:
    """What an agent is told at the start of an episode.

    Attributes:
        env_id: Gymnasium id.
        task_id: stable task id.
        goal: what to achieve.
        rules: the environment's `rules` text.
        seed: for chance within the agent; equal seeds give equal sessions.
        max_steps: limit of actions.
        env: the environment itself, for agents that may look inside (expert, random). A language-model agent must not.
    """

    env_id: str
    task_id: str
    goal: str
    rules: str
    seed: int
    max_steps: int
    env: TextEnv


@dataclass(frozen=True, slots=True)
class Decision:
    """One turn of an agent.

    Attributes:
        action: the command to play. Empty where none could be read from the response.
        thought: the reasoning in front of it, or None.
        plan: the plan in force when the action was chosen, or None for agents without one.
        raw: the response as the model gave it.
        well_formed: whether the response keeps the format strictly (what the format reward asks for).
        usage: cost of this turn, planner and executor together.
        trace: every model call of this turn, in order, for the reader of a trajectory (role, text, ...).
    """

    action: str
    thought: str | None = None
    plan: Plan | None = None
    raw: str = ""
    well_formed: bool = True
    usage: Usage = field(default_factory=Usage)
    trace: tuple[dict[str, Any], ...] = ()


class Session(ABC):
    """One episode of an agent."""

    @abstractmethod
    async def act(self, observation: str) -> Decision:
        """Return the decision for the newest observation.

        Raises:
            ModelError: the model could not answer.
            ContextOverflowError: the next turn would not fit the model's window.
        """

    def close(self) -> None:  # noqa: B027 - optional
        """Release what the session holds (a KV cache). Called once, when the episode is over."""


class Agent(ABC):
    """A player of text environments; see the module's docstring.

    Attributes:
        name: for tables and results.
    """

    name: str

    @abstractmethod
    def start(self, briefing: Briefing) -> Session:
        """Begin an episode."""

    def describe(self) -> dict[str, Any]:
        """Return what a result file should record of this agent: name, models, settings. JSON types only."""
        return {"name": self.name}
