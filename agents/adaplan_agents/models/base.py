"""What a model is.

- A **model** is weights or a server: shared by all episodes, it answers whatever requests are pending.
- A **conversation** is one thread of messages with it: ``user(...)`` adds what the model is told, ``await sample(...)``
  what it answers. It only ever grows, so it is also the place where a backend keeps a cache of what was read before.
- **Provenance** says where a piece of a conversation comes from. It decides what is trained on; nothing else does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self

from adaplan_envs.chat import ChatReply, Message, Sampling
from adaplan_envs.errors import ConfigError

if TYPE_CHECKING:
    from adaplan_agents.models.context import Context


class Provenance(StrEnum):
    """Who wrote a piece of a conversation."""

    GIVEN = "given"
    """The prompt: instructions, rules, a plan from elsewhere, and the template's own tokens."""
    OBSERVATION = "observation"
    """The environment."""
    PLANNER = "planner"
    """Sampled from the model in its planner's role."""
    EXECUTOR = "executor"
    """Sampled from the model in its executor's role."""


class Conversation(ABC):
    """One append-only thread of messages.

    Attributes:
        messages: all of it, as ``{"role", "content"}``; a message the model has not seen yet included.
    """

    def __init__(self, system: str = "") -> None:
        self.messages: list[dict[str, str]] = [{"role": "system", "content": system}] if system else []

    @property
    def context(self) -> Context | None:
        """The exact tokens with their provenance, where the backend works on tokens; else None."""
        return None

    def user(self, text: str, provenance: Provenance = Provenance.GIVEN) -> None:
        """Add to what the model is told next. Pieces added between two answers are one message, joined as they are."""
        if self.messages and self.messages[-1]["role"] == "user":
            self.messages[-1]["content"] += text
        else:
            self.messages.append({"role": "user", "content": text})
        self._on_user(text, provenance)

    def assistant(self, text: str) -> None:
        """Add an answer that was not sampled here, such as a plan from elsewhere. Its provenance is given."""
        if not self.messages or self.messages[-1]["role"] != "user":
            raise ConfigError("an assistant's turn answers a user's: call user() first")
        self._on_assistant(text)
        self.messages.append({"role": "assistant", "content": text})

    async def sample(self, sampling: Sampling, provenance: Provenance = Provenance.EXECUTOR) -> ChatReply:
        """Return the model's answer, which becomes part of the conversation.

        Raises:
            ModelError: there is none; the conversation is as before.
            ContextOverflowError: prompt and answer would not fit the model's window.
        """
        if not self.messages or self.messages[-1]["role"] != "user":
            raise ConfigError("nothing to answer: call user() before sample()")
        reply = await self._sample(sampling, provenance)
        self.messages.append({"role": "assistant", "content": reply.text})
        return reply

    def fork(self) -> Self:
        """Return an independent copy, to try several answers to the same prefix."""
        twin = self._fork()
        twin.messages = [dict(message) for message in self.messages]
        return twin

    def close(self) -> None:  # noqa: B027 - optional
        """Release what the backend holds for this conversation. Calling it twice is fine."""

    def _on_user(self, text: str, provenance: Provenance) -> None:  # noqa: B027 - optional
        """Take note of a piece that `user` added."""

    def _on_assistant(self, text: str) -> None:  # noqa: B027 - optional
        """Take note of a turn that `assistant` adds."""

    @abstractmethod
    async def _sample(self, sampling: Sampling, provenance: Provenance) -> ChatReply:
        """Return the answer to `messages`."""

    @abstractmethod
    def _fork(self) -> Self:
        """Return a copy of everything but `messages`."""


class Model(ABC):
    """A language model.

    Attributes:
        name: for tables and results, such as ``smollm2`` or ``openai:gpt-4o``.
    """

    name: str

    @abstractmethod
    def open(self, system: str = "") -> Conversation:
        """Begin a conversation, with a system message or none."""

    async def chat(self, messages: Sequence[Message], sampling: Sampling | None = None) -> ChatReply:
        """Answer `messages` in a conversation of its own, so that any model can be a simulator or a judge.

        Only the first message may be a system message; the last one must be the user's.

        Raises:
            ConfigError: the messages are in no such order.
            ModelError: there is no answer.
        """
        conversation = self.open_with(messages)
        try:
            return await conversation.sample(sampling or Sampling())
        finally:
            conversation.close()

    def open_with(self, messages: Sequence[Message]) -> Conversation:
        """Begin a conversation that holds `messages`; see `chat`."""
        system = messages[0]["content"] if messages and messages[0]["role"] == "system" else ""
        conversation = self.open(system)
        try:
            for message in messages[1:] if system else messages:
                if message["role"] == "user":
                    conversation.user(message["content"])
                elif message["role"] == "assistant":
                    conversation.assistant(message["content"])
                else:
                    raise ConfigError(f"a message of role {message['role']!r} can't stand here; user or assistant can")
        except BaseException:
            conversation.close()
            raise
        return conversation

    def describe(self) -> dict[str, Any]:
        """Return what a result file should record of this model. JSON types only, no secrets."""
        return {"name": self.name}

    async def aclose(self) -> None:  # noqa: B027 - optional
        """Release what the model holds (connections, a worker thread). Calling it twice is fine."""
