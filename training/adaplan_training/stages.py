"""Stages: where plans come from, whose tokens are trained, what is rewarded, how long (PilotRL paper, section 3).

The three of the paper go by the names ``1``, ``2`` and ``3`` in a recipe: ``stages: [1, 2, 3]``, any subset in any
order, or joint, ``1&2&3``. `expand` turns such names into the settings that they stand for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from adaplan_agents import make_agent
from adaplan_agents.models import Model, load_model
from adaplan_agents.types import Agent
from adaplan_envs.errors import ConfigError, check_name
from adaplan_training.config import Stage, TrainConfig

_LOGGED = {"format": 0.0, "adherence": 0.0, "e2e": 0.0, "plan_quality": 0.0}
"""Every term is judged in every stage, so that its course over the whole run can be seen (the paper's Figure 3)."""

STAGES: Mapping[str, Stage] = {
    "1": Stage(
        "1",
        epochs=1,
        roles=["executor"],
        rewards={**_LOGGED, "format": 1.0, "adherence": 1.0, "e2e": 1.0},
        plans="frontier",
    ),
    "2": Stage("2", epochs=2, rewards={**_LOGGED, "format": 1.0, "e2e": 1.0, "plan_quality": 1.0}, plans="select"),
    "3": Stage("3", epochs=1, rewards={**_LOGGED, "format": 1.0, "e2e": 1.0}),
}
"""The paper's: follow plans of a frontier model; make better plans; both together."""

TOTAL_EPOCHS = 4.0
"""Of all stages together. A subset takes as long as the whole, so that what is compared was trained equally."""


def expand(entries: Any) -> list[dict[str, Any]]:
    """Return the settings of the stages of a recipe, ready to be read as `Stage`.

    An entry is a name of `STAGES`; several joined by ``&``, whose steps alternate; a mapping with the name under
    ``stage`` and what differs; or a mapping without, which is a stage of the user's own. Where no entry gives its own
    ``epochs`` or ``steps``, those of the paper's stages are scaled to `TOTAL_EPOCHS` in all.

    Raises:
        UnknownNameError: no such stage.
        ConfigError: an entry is none of these.
    """
    entries = list(entries) if isinstance(entries, (list, tuple)) else [entries]
    stages: list[dict[str, Any]] = []
    scaled = bool(entries)
    for number, entry in enumerate(entries):
        if isinstance(entry, Mapping) and "stage" not in entry:
            stages.append(dict(entry))
            scaled = False
            continue
        changes = dict(entry) if isinstance(entry, Mapping) else {"stage": entry}
        names = changes.pop("stage")
        if isinstance(names, bool) or not isinstance(names, (int, str)):
            raise ConfigError(
                f"stages.{number} is {entry!r}; give a name such as 1 or '1&2', or the settings of a stage"
            )
        scaled = scaled and not {"epochs", "steps"} & set(changes)
        for position, name in enumerate(str(names).split("&")):
            stage = dataclasses.asdict(STAGES[check_name("stage", name.strip(), STAGES)])
            if "steps" in changes or "epochs" in changes:
                stage["epochs"] = stage["steps"] = None
            stages.append(merged(stage, {**changes, **({"joint": True} if position else {})}))
    if scaled:
        factor = TOTAL_EPOCHS / sum(stage["epochs"] for stage in stages)
        for stage in stages:
            stage["epochs"] *= factor
    return stages


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with `changes`; settings within settings are merged too, everything else is replaced."""
    result = dict(base)
    for key, value in changes.items():
        old = result.get(key)
        result[key] = merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return result


def schedule(stages: Sequence[Stage], steps_of: Callable[[Stage], int]) -> list[Stage]:
    """Return the stage of each step. Joint stages alternate, each as often as it has steps, spread evenly."""
    blocks: list[list[Stage]] = []
    for stage in stages:
        if stage.joint:
            blocks[-1].append(stage)
        else:
            blocks.append([stage])
    order: list[Stage] = []
    for block in blocks:
        counts = [steps_of(stage) for stage in block]
        turns = [((step + 0.5) / count, position) for position, count in enumerate(counts) for step in range(count)]
        order += [block[position] for _, position in sorted(turns)]
    return order


class Players:
    """The agents of a run. What they ask beside the policy is loaded once.

    Args:
        config: of the run.
        policy: the model that is trained.
    """

    def __init__(self, config: TrainConfig, policy: Model) -> None:
        self.config, self.policy = config, policy
        self._agents: dict[int | None, Agent] = {}
        self._models: dict[str, Model] = {}
        self._frontier: Any = None

    def agent(self, stage: Stage | None = None) -> Agent:
        """Return the agent of a stage's rollouts; that of evaluation for None.

        Raises:
            ConfigError: settings that contradict each other.
            ModelAccessError: another model that the agent asks can't be used.
        """
        key = None if stage is None else self.config.stages.index(stage)
        if key not in self._agents:
            self._agents[key] = self._make(stage)
        return self._agents[key]

    def _make(self, stage: Stage | None) -> Agent:
        config = self.config.agent
        settings: dict[str, Any] = dict(config.settings)
        if stage is not None:
            if stage.plans == "select":
                settings["candidates"] = self.config.plans.candidates
            elif stage.plans == "frontier":
                settings["plan_source"] = self._frontier_plans()
            settings |= stage.agent
        for name in ("planner", "plan_source"):
            spec = settings.get(name)
            if isinstance(spec, str) and spec != "expert":
                settings[name] = self._model(spec)
        model = self.policy
        if config.executor is not None:
            if "planner" in settings:
                raise ConfigError("agent.executor makes the policy the planner; leave agent.settings.planner out")
            model, settings["planner"] = self._model(config.executor), self.policy
        temperature = config.temperature if stage is not None else self.config.eval.temperature
        return make_agent(config.name, model, temperature=temperature, max_tokens=config.turn_tokens, **settings)

    def _model(self, spec: str) -> Model:
        if spec not in self._models:
            self._models[spec] = load_model(spec)
        return self._models[spec]

    def _frontier_plans(self) -> Any:
        plans = self.config.plans
        if plans.frontier == "expert":
            return "expert"  # knows the way from every state, and so revises its plan
        if self._frontier is None:
            from adaplan_evaluation.judges import FrontierPlans

            self._frontier = FrontierPlans(
                plans.frontier,
                candidates=plans.candidates,
                env_settings=self.config.rollout.settings,
                cache=plans.cache,
            )
        return self._frontier

    async def aclose(self) -> None:
        """Release the models that were loaded beside the policy."""
        if self._frontier is not None:
            await self._frontier.aclose()
        for model in self._models.values():
            await model.aclose()
