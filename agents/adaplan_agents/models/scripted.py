"""A model that says what it is told to: for tests, benchmarks and demonstrations."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Self

from adaplan_agents.models.base import Conversation, Model, Provenance
from adaplan_envs.chat import ChatReply, Sampling, Usage
from adaplan_envs.errors import ConfigError, ModelError

Script = Callable[[list[dict[str, str]]], str | Awaitable[str]]


class ScriptedModel(Model):
    """Answers from a list, or by a function of the messages.

    Tokens are counted as words, so that usage is plausible and the same everywhere.

    Args:
        replies: a list, from which every conversation is answered from its start on (a fork goes on where it forked);
            or a plain or async function from the messages to the answer.
        name: for tables and results.

    Raises:
        ConfigError: `replies` is neither.
    """

    def __init__(self, replies: Sequence[str] | Script, name: str = "scripted") -> None:
        if isinstance(replies, str) or not (callable(replies) or isinstance(replies, Sequence)):
            raise ConfigError("a scripted model needs a list of replies, or a function from messages to a reply")
        self.name = name
        self.replies = replies

    def open(self, system: str = "") -> Conversation:
        return _ScriptedConversation(self.replies, system)


class _ScriptedConversation(Conversation):
    def __init__(self, replies: Sequence[str] | Script, system: str = "") -> None:
        super().__init__(system)
        self._replies = replies
        self._counted = self._words = 0  # messages whose words were counted, and their words

    async def _sample(self, sampling: Sampling, provenance: Provenance) -> ChatReply:
        if callable(self._replies):
            answer: Any = self._replies(self.messages)
            text = await answer if inspect.isawaitable(answer) else answer
        else:
            turn = sum(message["role"] == "assistant" for message in self.messages)
            if turn >= len(self._replies):
                raise ModelError(f"the script has {len(self._replies)} replies; this conversation asks for one more")
            text = self._replies[turn]
        if not isinstance(text, str):
            raise ModelError(f"the script answered with {type(text).__name__}, not with a string")
        cut = min((at for at in map(text.find, sampling.stop) if at >= 0), default=len(text))
        text = text[:cut]
        return ChatReply(text, Usage(self._count(), len(text.split()), 1))

    def _fork(self) -> Self:
        return type(self)(self._replies)

    def _count(self) -> int:
        """Return the words of all messages; each is counted once, so that long episodes stay cheap."""
        self._words += sum(len(message["content"].split()) for message in self.messages[self._counted :])
        self._counted = len(self.messages)
        return self._words
