"""What is said to a language model and what it answers: messages, sampling, replies, what they cost.

Import these names from `adaplan_envs.chat`, beside the client.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from adaplan_envs.errors import ConfigError

Message = Mapping[str, str]
"""``{"role": "system" | "user" | "assistant", "content": text}``."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What model calls cost. Adds up with ``+``.

    Attributes:
        prompt_tokens: tokens read.
        completion_tokens: tokens written.
        requests: calls.
        cost: in US dollars, 0.0 where no price is known or the model runs here.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    requests: int = 0
    cost: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.requests + other.requests,
            self.cost + other.cost,
        )


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next tokens are chosen.

    Attributes:
        temperature: 0 is greedy.
        top_p: keep the most likely tokens that hold this share of the probability.
        top_k: keep this many of the most likely tokens; 0 keeps all.
        max_tokens: at most this many new tokens.
        stop: the answer ends in front of the first of these strings.
        seed: equal seeds give equal answers where the backend can promise that; None is as chance will have it.
        json_schema: the answer is a JSON object of this schema, where the backend can hold the model to it.
        choices: the answer is one of these texts. Models behind a server refuse this.

    Raises:
        ConfigError: a value out of range, or both a schema and choices.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int = 256
    stop: tuple[str, ...] = ()
    seed: int | None = None
    json_schema: Mapping[str, Any] | None = field(default=None, hash=False)
    choices: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name, value, fine, valid in (
            ("temperature", self.temperature, 0 <= self.temperature < float("inf"), "0 (greedy) or more"),
            ("top_p", self.top_p, 0 < self.top_p <= 1, "above 0 and at most 1"),
            ("top_k", self.top_k, self.top_k >= 0, "0 (all tokens) or more"),
            ("max_tokens", self.max_tokens, self.max_tokens >= 1, "1 or more"),
        ):
            if not fine:
                raise ConfigError(f"{name} is {value}; it must be {valid}")
        if isinstance(self.stop, str) or not all(self.stop):
            raise ConfigError(f"stop is {self.stop!r}; it must be a list of non-empty strings")
        object.__setattr__(self, "stop", tuple(self.stop))
        if self.choices is not None:
            if self.json_schema is not None:
                raise ConfigError("give json_schema or choices: an answer has one form")
            if isinstance(self.choices, str) or not self.choices or not all(self.choices):
                raise ConfigError(f"choices is {self.choices!r}; it must be a list of non-empty strings")
            object.__setattr__(self, "choices", tuple(self.choices))


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A model's answer.

    Attributes:
        text: what it said, without the stop string.
        usage: what it cost.
        finish_reason: ``stop`` (it ended by itself or at a stop string), ``length`` (cut at `Sampling.max_tokens`), or
            whatever else a server reports.
    """

    text: str
    usage: Usage = field(default_factory=Usage)
    finish_reason: str = "stop"


def object_schema(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of an object with all of `properties`, in their order, and no others."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


class Chat(Protocol):
    """Anything that answers messages: a `ChatClient`, a model of `adaplan_agents.models`, a test's stand-in."""

    async def chat(self, messages: Sequence[Message], sampling: Sampling | None = None) -> ChatReply:
        """Return the answer to `messages`.

        Raises:
            ModelError: there is none.
        """
