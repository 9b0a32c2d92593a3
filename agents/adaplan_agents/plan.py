"""`Plan`: the global plan of an episode, and its revision (Eq. 1 of the PilotRL paper)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    """Numbered steps, one for each action; immutable.

    Attributes:
        steps: what to do, in words; ``steps[0]`` is step 1.
        done: how many actions were played under the plan. Step ``done + 1`` guides the next one.
    """

    steps: tuple[str, ...] = ()
    done: int = 0

    @property
    def current(self) -> str | None:
        """The step that guides the next action, or None where the plan is used up."""
        return self.steps[self.done] if self.done < len(self.steps) else None

    @property
    def remaining(self) -> tuple[str, ...]:
        """The steps from the current one on."""
        return self.steps[self.done :]

    def revise(self, t: int, proposed: Iterable[str]) -> Plan:
        """Return P(t): steps 1..t as they are, every later one from `proposed` (Eq. 1).

        Args:
            t: how many steps are history; at most as many as there are.
            proposed: the new steps ``t + 1, t + 2, ...``.

        Raises:
            ValueError: `t` is negative or beyond the plan.
        """
        if not 0 <= t <= len(self.steps):
            raise ValueError(f"t is {t}; this plan has steps 1 to {len(self.steps)}")
        return Plan((*self.steps[:t], *proposed), t)

    def advance(self) -> Plan:
        """Return the plan after one more action. A plan that is used up stays so."""
        return Plan(self.steps, min(self.done + 1, len(self.steps)))

    def lines(self, start: int = 1) -> str:
        """Return the steps from number `start` on, as ``1. ...`` a line each: the format that the parser reads."""
        return "\n".join(f"{number}. {step}" for number, step in enumerate(self.steps, 1) if number >= start)

    def __str__(self) -> str:
        return self.lines()
