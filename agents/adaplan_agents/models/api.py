"""Models behind a server that speaks the OpenAI protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from adaplan_agents.models.base import Conversation, Model, Provenance
from adaplan_envs.chat import ChatClient, ChatReply, Message, Sampling


class ApiModel(Model):
    """``openai:MODEL``: messages in, text out; there are no tokens to train on.

    Args:
        model: the server's name of the model.
        base_url: see `adaplan_envs.chat.ChatClient`, as for all the others.
        api_key: default ``OPENAI_API_KEY``.
        timeout: seconds for one attempt.
        retries: further attempts after a failure that may pass.
        concurrency: requests under way at once.
        cache: folder for answers.
        prices: US dollars for a million tokens read and a million written.
        extra: further fields of the request.
    """

    def __init__(
        self,
        model: str,
        /,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 120.0,
        retries: int = 5,
        concurrency: int = 16,
        cache: str | Path | None = None,
        prices: tuple[float, float] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = f"openai:{model}"
        self.client = ChatClient(
            model,
            base_url=base_url,
            api_key=api_key,
            timeout=timeout,
            retries=retries,
            concurrency=concurrency,
            cache=cache,
            prices=prices,
            extra=extra,
        )

    def open(self, system: str = "") -> Conversation:
        return _ApiConversation(self.client, system)

    async def chat(self, messages: Sequence[Message], sampling: Sampling | None = None) -> ChatReply:
        return await self.client.chat(messages, sampling)

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, **self.client.describe()}

    async def aclose(self) -> None:
        await self.client.aclose()


class _ApiConversation(Conversation):
    def __init__(self, client: ChatClient, system: str = "") -> None:
        super().__init__(system)
        self._client = client

    async def _sample(self, sampling: Sampling, provenance: Provenance) -> ChatReply:
        return await self._client.chat(self.messages, sampling)

    def _fork(self) -> Self:
        return type(self)(self._client)
