"""`Twin`: an environment of the suite, played by a language model instead of its own simulator."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from adaplan_envs.core import TextEnv
from adaplan_envs.errors import NoPlanError
from adaplan_envs.simulated.cards import CardEnv
from adaplan_envs.simulated.env import Scenario, SimulatedEnv
from adaplan_envs.simulated.scripted import Replica, ScriptedSimulator
from adaplan_envs.simulated.simulator import Simulator, get_simulator
from adaplan_envs.types import Task

_MANUAL = ("Observation", "Actions", "Reward and end")
"""The headings of an environment's docstring that its simulator is told."""


class Twin(SimulatedEnv):
    """The simulated twin of an environment: same tasks, goals, rules and first observations; a model plays the rest.

    ## Description
    A language model is told the rules, what the environment's page says of observations and end, the hidden facts of
    the task (Wordle's word, the maze, the recipes, the scene), the history and the action, and answers what happens.

    ## Observation
    The first one is the real environment's; the others are the simulator's, as far as they give nothing away.

    ## Actions
    Those of the real environment, as far as the simulator knows the rules.

    ## Reward and end
    1.0 when the simulator says that the goal is reached; truncated after the real environment's number of steps; see
    the rules in `SimulatedEnv`. The score is 0 until then: a simulator is not asked for progress.

    ## Tasks
    The real environment's, by the same ids. Where its packages are missing, those that are shipped as cards.

    ## Options
    ``simulator``, ``simulator_options``, ``temperature``, ``prompt``, ``cache``, ``max_cost``, ``max_tokens`` (see
    Args), and all of the real environment's. The real one's own keys of ``info`` are missing; ``usage``, ``flags`` and
    ``error`` come in their place.

    ## Differences from the reference
    The paper's simulator is a prompt alone. This one has hidden facts from a real simulator, a guard over them, stated
    rules for contradictory answers, and the real environment beside it to be measured against.

    ## Source
    PilotRL, arXiv 2508.00344: a frontier model as environment.

    ## Example
    >>> import gymnasium
    >>> env = gymnasium.make("adaplan_envs:AdaPlan/Maze-v0", backend="simulated", simulator="scripted")
    >>> observation, info = env.reset(options={"task_id": "maze/agentgym/0018"})
    >>> env.step("move down")[0]
    'You have reached the goal.'

    Args:
        make: makes the real environment, with the options that are passed on to it.
        simulator: ``openai:MODEL``, ``smollm2`` or another model's name; an object with ``async chat(messages)``;
            ``scripted`` (the real environment behind the same protocol) or ``scripted:0.1`` (wrong in a tenth).
        simulator_options: of the model that is named by a string, such as ``{"base_url": ...}``.
        cache: folder of kept answers; True takes one in the user's cache folder, False keeps none.
        max_cost: US dollars, after which every environment with this simulator stops.
        max_tokens: tokens, read and written, likewise.
        **options: see `SimulatedEnv` and the real environment.
    """

    def __init__(
        self,
        make: Callable[..., TextEnv],
        *,
        simulator: Any,
        simulator_options: Mapping[str, Any] | None = None,
        temperature: float = 0.0,
        prompt: str | Path | None = None,
        cache: str | Path | bool = True,
        max_cost: float | None = None,
        max_tokens: int | None = None,
        admissible_actions: bool = False,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        self._real = real = make(**options)
        self.spelled = real.spelled
        self._replica = Replica(lambda: real)
        self._scripted: ScriptedSimulator | None = None
        if isinstance(simulator, str) and simulator.partition(":")[0] == "scripted":
            self._scripted = ScriptedSimulator(simulator, lambda: make(**options))
            shared = Simulator(self._scripted, simulator, max_cost=max_cost, max_tokens=max_tokens)
        else:
            shared = get_simulator(
                simulator, options=simulator_options, cache=cache, max_cost=max_cost, max_tokens=max_tokens
            )
        # The class stands for every environment; an instance says which, as a class does elsewhere.
        self.name = real.name  # type: ignore[misc]
        self.splits = real.splits  # type: ignore[misc]
        self.rulesets = real.rulesets  # type: ignore[misc]
        self.default_max_steps = real.default_max_steps  # type: ignore[misc]
        super().__init__(
            shared,
            temperature=temperature,
            prompt=prompt,
            split=real.split,
            rules=real.ruleset,
            max_steps=real.max_steps,
            admissible_actions=admissible_actions,
            render_mode=render_mode,
        )

    @property
    def rules(self) -> str:
        return self._real.rules

    def task_id(self, split: str, index: int) -> str:
        return self._real.task_id(split, index)

    def task_ids(self, split: str | None = None) -> list[str]:
        return self._real.task_ids(split or self.split)

    def task(self, task_id: str) -> Task:
        return self._real.task(task_id)

    def make_task(self, split: str, index: int) -> Task:
        return self._real.make_task(split, index)

    def _scenario(self, task: Task, seed: int) -> Scenario:
        real = self._replica.at(task.id, seed, ())
        told = real.manual if isinstance(real, CardEnv) else manual(type(real).__doc__ or "")
        return Scenario(self._replica.observation, real.hidden_facts(), tuple(real.secrets()), told)

    def facts(self, observation: str) -> dict[str, Any]:
        return self._real.facts(observation)

    def admissible_actions(self) -> list[str] | None:
        """Return what the real environment would list after the same actions; None where it has ended or is missing."""
        if isinstance(self._real, CardEnv):
            return None
        real = self._replay()
        return None if real is None else real.admissible_actions()

    def _make_expert(self) -> _TwinExpert:
        return _TwinExpert(self._replay)

    def _replay(self) -> TextEnv | None:
        """Return the real environment after the same actions, or None where its episode is over."""
        real = self._replica.at(self.current_task.id, self._seed, self._state.actions)
        return None if self._replica.ended else real

    def close(self) -> None:
        """Close the real environments behind it; the simulator goes with the last environment that uses it."""
        self._replica.close()
        if self._scripted is not None:
            self._scripted.close()
        super().close()


class _TwinExpert:
    """The real environment's expert, asked after the same actions."""

    def __init__(self, replay: Callable[[], TextEnv | None]) -> None:
        self._replay = replay

    def _real(self) -> TextEnv:
        real = self._replay()
        if real is None:
            raise NoPlanError("the real environment's episode is over after these actions; its twin goes on")
        return real

    def plan(self) -> list[str]:
        """Return the remaining steps in words."""
        return self._real().expert.plan()

    def action(self) -> str:
        """Return the next command."""
        return self._real().expert.action()


@cache
def manual(docstring: str) -> str:
    """Return what an environment's docstring says of observations, actions and end."""
    sections = re.split(r"^## (.+)\n", inspect.cleandoc(docstring), flags=re.M)
    texts = dict(zip(sections[1::2], sections[2::2], strict=True))
    return "\n\n".join(f"{heading}: {' '.join(texts[heading].split())}" for heading in _MANUAL if heading in texts)
