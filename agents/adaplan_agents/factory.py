"""Agents by spec string."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

from adaplan_agents.adaplan import AdaPlanAgent
from adaplan_agents.baselines import (
    BriefAgent,
    ExpertAgent,
    FunctionAgent,
    MPOAgent,
    NaiveAgent,
    RandomAgent,
    ReActAgent,
)
from adaplan_agents.loading import check_keywords, keywords, load_object
from adaplan_agents.models import Model, load_model
from adaplan_agents.session import sampling_from
from adaplan_agents.types import Agent
from adaplan_envs.errors import ConfigError, UnknownNameError

GROUP = "adaplan.agents"

_BUILT_IN: dict[str, type[Agent]] = {
    "adaplan": AdaPlanAgent,
    "brief": BriefAgent,
    "expert": ExpertAgent,
    "mpo": MPOAgent,
    "naive": NaiveAgent,
    "random": RandomAgent,
    "react": ReActAgent,
}


def agent_names() -> list[str]:
    """Return the names of all known agents, plug-ins included."""
    return sorted({*_BUILT_IN, *(point.name for point in entry_points(group=GROUP))})


def make_agent(
    spec: str | Agent | type[Agent] | Callable[..., Any],
    model: Model | str | None = None,
    **settings: Any,
) -> Agent:
    """Return the agent that `spec` names.

    Args:
        spec: a built-in name (``adaplan``, ``react``, ``naive``, ``mpo``, ``random``, ``expert``), a plug-in's from the
            entry-point group ``adaplan.agents``, ``module:attr``, a class, a plain or async function from observation
            to answer, or an `Agent`, which is returned as it is.
        model: what it asks, as a `Model` or a spec string; for agents that ask one.
        settings: of that kind of agent; the fields of `Sampling` (``temperature`` ...) can be given here directly.

    Raises:
        UnknownNameError: no such agent or setting.
        ConfigError: a model is missing or of no use to this agent, or `spec` is nothing that can be an agent.
    """
    if isinstance(spec, str):
        found: Any = _find(spec)
        label = spec
    else:
        found, label = spec, getattr(spec, "__name__", type(spec).__name__)
    if isinstance(found, Agent):
        return _done(found, label, model, settings)
    if inspect.isclass(found) and issubclass(found, Agent):
        return _build(found, label, model, settings)
    if callable(found):
        return _done(FunctionAgent(found, label if isinstance(spec, str) else None), label, model, settings)
    raise ConfigError(f"agent {label!r} is {type(found).__name__}; an Agent, its class or a function can be an agent")


def _find(spec: str) -> Any:
    plugins = {point.name: point for point in entry_points(group=GROUP)}
    if spec in _BUILT_IN:
        return _BUILT_IN[spec]
    if spec in plugins:
        return plugins[spec].load()
    if ":" in spec:
        return load_object(spec, "agent")
    raise UnknownNameError("agent", spec, {*_BUILT_IN, *plugins, "module:attr"})


def _done(agent: Agent, label: str, model: Model | str | None, settings: dict[str, Any]) -> Agent:
    """Return a finished agent, after making sure that nothing the user gave is left unused."""
    if model is not None or settings:
        unused = (["model"] if model is not None else []) + sorted(settings)
        raise ConfigError(f"agent {label!r} takes no {', no '.join(unused)}")
    return agent


def _build(kind: type[Agent], label: str, model: Model | str | None, settings: dict[str, Any]) -> Agent:
    valid = keywords(kind)
    if valid is None or "sampling" in valid:
        sampling, settings = sampling_from(settings)
        if sampling is not None:
            settings["sampling"] = sampling
    check_keywords(f"setting of agent {label}", kind, settings, skip=("model",))
    wants_model = valid is None or "model" in valid
    if model is not None:
        if not wants_model:
            raise ConfigError(f"agent {label!r} asks no model; leave the model out")
        settings["model"] = load_model(model)
    elif "model" in (valid or ()) and inspect.signature(kind).parameters["model"].default is inspect.Parameter.empty:
        raise ConfigError(f"agent {label!r} needs a model, such as model='smollm2' or model='openai:NAME'")
    return kind(**settings)
