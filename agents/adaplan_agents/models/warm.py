"""Chats that go on: a simulator sends its whole conversation again at every step, and only what is new has to be read.

A conversation stays open after its answer, with its KV cache, until a chat begins with all of it. As many are kept as
chats have been under way at once, so that it takes no more memory than they did.
"""

from __future__ import annotations

from collections.abc import Sequence

from adaplan_agents.models.base import Conversation
from adaplan_envs.chat import Message

_Key = tuple[tuple[str, str], ...]


class Warm:
    """The conversations that are kept, the one that has waited longest first."""

    def __init__(self) -> None:
        self._kept: dict[_Key, Conversation] = {}
        self._running = self._peak = 0

    def take(self, messages: Sequence[Message]) -> Conversation | None:
        """Begin a chat: return the conversation that is all of `messages` but the last, if one is kept."""
        self._running += 1
        self._peak = max(self._peak, self._running)
        goes_on = bool(messages) and messages[-1]["role"] == "user"
        found = self._kept.pop(_key(messages[:-1]), None) if goes_on else None
        self._shrink()
        return found

    def end(self, conversation: Conversation | None, keep: bool) -> None:
        """End a chat: keep its conversation, or close it."""
        self._running -= 1
        if conversation is None:
            return
        if keep:
            replaced = self._kept.pop(key := _key(conversation.messages), None)
            self._kept[key] = conversation
            if replaced is not None:
                replaced.close()
        else:
            conversation.close()
        self._shrink()

    def close(self) -> None:
        """Close all that are kept."""
        while self._kept:
            self._kept.pop(next(iter(self._kept))).close()

    def _shrink(self) -> None:
        while self._kept and len(self._kept) + self._running > self._peak:
            self._kept.pop(next(iter(self._kept))).close()


def _key(messages: Sequence[Message]) -> _Key:
    return tuple((message["role"], message["content"]) for message in messages)
