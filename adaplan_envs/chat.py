"""Talking to a language model: the vocabulary, and a client for servers of the OpenAI protocol.

Agents, simulated twins and judges share both. `ChatClient` retries what may pass, gives up at once on what won't,
counts every failure by kind, and keeps the key to itself.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import re
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from email.utils import parsedate_to_datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from adaplan_envs.chat_cache import cache_path, read_cache, write_cache
from adaplan_envs.chat_types import Chat, ChatReply, Message, Sampling, Usage, object_schema
from adaplan_envs.errors import ConfigError, ContextOverflowError, ModelAccessError, ModelError, nearest, require

__all__ = [
    "Chat",
    "ChatClient",
    "ChatReply",
    "Message",
    "Sampling",
    "Usage",
    "object_schema",
    "read_cache",
    "write_cache",
]

_log = logging.getLogger(__name__)

NO_KEY = "none"
"""Sent where a server of the user's needs no key: the client insists on one."""
MAX_WAIT = 60.0
"""Seconds; a server that asks for a longer pause is given up."""
LIST_TIMEOUT = 10.0
"""Seconds for the list of a server's models, which only makes a message clearer."""
POOL = 8
"""Requests under way that share a connection pool: for each of them a pool looks through all of its connections."""


class ChatClient:
    """An asynchronous client for one model of a server that speaks the OpenAI protocol.

    It can be used from several event loops, one after another, as ``asyncio.run`` makes them.

    Args:
        model: the server's name of the model.
        base_url: of the server; default ``OPENAI_BASE_URL``, else OpenAI's own.
        api_key: default ``OPENAI_API_KEY``; a server of yours may need none.
        timeout: seconds for one attempt.
        retries: further attempts after a failure that may pass (429, 5xx, time-outs, lost connections, unusable
            answers), each after a longer pause or the one that the server asks for.
        concurrency: requests under way at once.
        cache: folder in which answers are kept by content, so that a repeated run costs nothing. Answers that are left
            to chance (a temperature without a seed) are not kept.
        prices: US dollars for a million tokens read and a million written.
        extra: further fields of the request, such as ``{"reasoning_effort": "low"}``; None takes a field out.

    Raises:
        MissingExtraError: the package openai is not installed.
        ModelAccessError: there is no key.
    """

    def __init__(
        self,
        model: str,
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
        if not model:
            raise ConfigError("which model? Give openai:MODEL, with the server's name of it")
        if timeout <= 0 or retries < 0 or concurrency < 1:
            raise ConfigError("timeout must be above 0, retries 0 or more, concurrency 1 or more")
        self._openai = require("openai", "openai")
        self.model = model
        self.failures: Counter[str] = Counter()
        """How often which kind of failure happened, those included that a later attempt made good."""
        self._answered = False
        self._forms = [_by_schema, _by_type]
        """How to ask for JSON of a schema, the best way first; those that the server has refused are gone."""
        self._base_url = base_url or os.environ.get("OPENAI_BASE_URL") or None
        self._key = api_key or os.environ.get("OPENAI_API_KEY") or (NO_KEY if self._base_url else "")
        if not self._key:
            raise ModelAccessError("no key for the API: set OPENAI_API_KEY, or OPENAI_BASE_URL for a server of yours")
        self._timeout, self._retries, self._concurrency = timeout, retries, concurrency
        self._cache = Path(cache) if cache is not None else None
        self._prices = prices or (0.0, 0.0)
        self._extra = dict(extra or {})
        # Connections and semaphores belong to an event loop.
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, _Connections] = WeakKeyDictionary()
        self._jitter = random.Random()  # spreads retries in time; touches no result

    async def chat(self, messages: Sequence[Message], sampling: Sampling | None = None) -> ChatReply:
        """Return the answer to `messages`.

        Raises:
            ConfigError: the answer is to be one of `Sampling.choices`.
            ModelAccessError: wrong key, unknown model, no quota: no use in going on.
            ContextOverflowError: the messages do not fit the model's window.
            ModelError: no usable answer after all attempts, or the server refuses the request.
        """
        sampling = sampling or Sampling()
        if sampling.choices is not None:
            raise ConfigError(
                f"{self.model} is behind a server, which can't be told the possible answers; leave them out "
                "(admissible=False), or use a model in this process: hf:PATH_OR_ID, vllm:PATH_OR_ID"
            )
        request = self._request(messages, sampling)
        path = self._cache_path(request)  # whatever the server understands of it, the question is the same
        if path is not None and (kept := read_cache(path)) is not None:
            return _cut(kept, sampling.stop)
        async with self._connections().lease() as client:
            reply = await self._in_form(client, request)
        if path is not None:
            write_cache(path, reply)
        return _cut(reply, sampling.stop)

    def describe(self) -> dict[str, Any]:
        """Return model and server, without any secret."""
        record: dict[str, Any] = {"model": self.model, "server": self._server()}
        return {**record, "extra": self._extra} if self._extra else record

    async def aclose(self) -> None:
        """Close the connections of the running event loop. Calling it twice is fine."""
        if (connections := self._by_loop.pop(asyncio.get_running_loop(), None)) is not None:
            await connections.aclose()

    def _server(self) -> str:
        """Return the base URL without user, password and query, where keys are sometimes put."""
        parts = urlsplit(self._base_url or "https://api.openai.com/v1")
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"

    def _request(self, messages: Sequence[Message], sampling: Sampling) -> dict[str, Any]:
        request: dict[str, Any] = {
            "model": self.model,
            "messages": [dict(message) for message in messages],
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
            "stop": list(sampling.stop) or None,
            "seed": sampling.seed,
            "top_k": sampling.top_k or None,
            "response_format": None if sampling.json_schema is None else _by_schema(sampling.json_schema),
        }
        return {key: value for key, value in {**request, **self._extra}.items() if value is not None}

    def _connections(self) -> _Connections:
        loop = asyncio.get_running_loop()
        if loop not in self._by_loop:
            self._by_loop[loop] = _Connections(self._client, self._concurrency)
        return self._by_loop[loop]

    def _client(self) -> Any:
        openai = self._openai
        certificates = _certificates(openai.DefaultAsyncHttpxClient)
        return openai.AsyncOpenAI(
            api_key=self._key,
            base_url=self._base_url,
            timeout=self._timeout,
            max_retries=0,
            http_client=openai.DefaultAsyncHttpxClient(verify=certificates, timeout=self._timeout),
        )

    async def _in_form(self, client: Any, request: dict[str, Any]) -> ChatReply:
        """Ask for an answer in the form that the request states, as far as the server knows of such a thing."""
        if "response_format" in self._extra or "response_format" not in request:
            return await self._attempts(client, request)
        schema = request["response_format"]["json_schema"]["schema"]
        while self._forms:
            form = self._forms[0]
            try:
                return await self._attempts(client, {**request, "response_format": form(schema)})
            except _FormRefusedError as error:
                if form in self._forms:  # else another request has found out meanwhile
                    self._forms.remove(form)
                    _log.info("%s; asking in another way from now on", error)
        return await self._attempts(client, {key: request[key] for key in request if key != "response_format"})

    async def _attempts(self, client: Any, request: dict[str, Any]) -> ChatReply:
        for attempt in range(self._retries + 1):
            try:
                reply = self._reply(await self._post(client, request))
                self._answered = True
                return reply
            except _Failure as failure:
                self.failures[failure.kind] += 1
                wait = max(min(0.5 * 2**attempt, 30.0) * self._jitter.uniform(0.5, 1.0), failure.wait)
                message = f"{self.model} at {self._server()}: {failure.text}"
                message = message.replace(self._key, "***") if self._key != NO_KEY else message
                if failure.fatal is None and (attempt == self._retries or wait > MAX_WAIT):
                    failure.fatal = ModelError
                    message += f" (after {attempt + 1} attempts)"
                if failure.fatal is ModelError and failure.kind in ("400", "422") and _blames_form(request, failure):
                    raise _FormRefusedError(message) from None
                if failure.fatal is not None:
                    doubtful = failure.kind in ("400", "404", "500") and failure.fatal is not ContextOverflowError
                    if doubtful and (hint := await self._unknown_name(client)):
                        raise ModelAccessError(f"{message}; {hint}") from None
                    raise failure.fatal(message) from None
                _log.info("%s; again in %.1f s", message, wait)
            await asyncio.sleep(wait)
        raise AssertionError("unreachable")

    async def _post(self, client: Any, request: dict[str, Any]) -> dict[str, Any]:
        """Send the request once and return the body.

        Raises:
            _Failure: whatever went wrong.
        """
        openai = self._openai
        try:
            # Not by chat.completions: its walks through messages and parameters by their types take half of its time.
            found = json.loads(await client.post("/chat/completions", cast_to=bytes, body=request))
        except openai.APITimeoutError:
            raise _Failure("timeout", f"no answer within {self._timeout:g} s") from None
        except openai.APIStatusError as error:
            raise _status_failure(error.status_code, error.response, str(error.message)) from None
        except openai.APIConnectionError as error:
            raise _Failure("connection", f"no connection ({error.__cause__ or error})") from None
        except (ValueError, openai.APIError) as error:
            raise _Failure("malformed", f"the answer is no JSON ({error})") from None
        if not isinstance(found, dict):
            raise _Failure("malformed", "the answer is no JSON object")
        return found

    async def _unknown_name(self, client: Any) -> str:
        """Return what is wrong with the model's name, where the server's list of models tells; else nothing.

        Servers answer a name that they don't know with 404, 400 or 500, of which the last two say little by themselves.
        """
        if self._answered:  # so the name is right, listed or not
            return ""
        try:
            listed = [str(model.id) async for model in client.models.list(timeout=min(self._timeout, LIST_TIMEOUT))]
        except (self._openai.OpenAIError, ValueError, TypeError, AttributeError):
            return ""
        if not listed or self.model in listed:
            return ""
        return f"the server lists no model of that name: {nearest(self.model, listed)}"

    def _reply(self, body: dict[str, Any]) -> ChatReply:
        try:
            choice = body["choices"][0]
            text = choice["message"]["content"] or ""
            used = body.get("usage") or {}
            read, written = int(used.get("prompt_tokens") or 0), int(used.get("completion_tokens") or 0)
            finish = str(choice.get("finish_reason") or "stop")
        except (KeyError, IndexError, TypeError, AttributeError):
            raise _Failure("malformed", "the answer holds no message") from None
        if not isinstance(text, str):
            raise _Failure("malformed", "the answer's content is no text")
        cost = (read * self._prices[0] + written * self._prices[1]) / 1e6
        return ChatReply(text, Usage(read, written, 1, cost), finish)

    def _cache_path(self, request: dict[str, Any]) -> Path | None:
        if self._cache is None or (request.get("temperature") != 0 and "seed" not in request):
            return None
        return cache_path(self._cache, [self._server(), request])


class _Connections:
    """The connections of one event loop: as many clients as it takes, each with a small pool.

    Args:
        make: makes a client.
        limit: requests under way at once, over all clients.
    """

    def __init__(self, make: Callable[[], Any], limit: int) -> None:
        self._make, self._free = make, asyncio.Semaphore(limit)
        self._clients: list[Any] = []
        self._under_way: list[int] = []

    @asynccontextmanager
    async def lease(self) -> AsyncIterator[Any]:
        """Give a client for one request, when its turn has come."""
        async with self._free:
            at = next((at for at, number in enumerate(self._under_way) if number < POOL), len(self._clients))
            if at == len(self._clients):
                self._clients.append(self._make())
                self._under_way.append(0)
            self._under_way[at] += 1
            try:
                yield self._clients[at]
            finally:
                self._under_way[at] -= 1

    async def aclose(self) -> None:
        for client in self._clients:
            await client.close()


@cache
def _certificates(http_client: type) -> Any:
    """Return the `verify` that clients share: reading certificates takes far longer than the rest of a client."""
    # The library below is httpx or its successor, by the version of openai; True lets each client read its own.
    libraries = (vars(sys.modules[base.__module__]) for base in http_client.__mro__)
    make = next((names["create_ssl_context"] for names in libraries if "create_ssl_context" in names), None)
    return True if make is None else make()


def _cut(reply: ChatReply, stop: Sequence[str]) -> ChatReply:
    """Return `reply` up to the first stop string, which some servers leave in the text."""
    ends = [at for at in map(reply.text.find, stop) if at >= 0]
    return replace(reply, text=reply.text[: min(ends)], finish_reason="stop") if ends else reply


def _by_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": dict(schema)}}


def _by_type(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "json_object"}


def _blames_form(request: Mapping[str, Any], failure: _Failure) -> bool:
    """Whether a server has refused the request for the form of the answer that it asks for."""
    return (
        "response_format" in request
        and re.search(r"response_?format|json|schema|grammar", failure.text, re.I) is not None
    )


class _FormRefusedError(ModelError):
    """The server does not know this way to ask for JSON."""


class _Failure(Exception):
    """One attempt failed. `fatal` is the error to raise where another attempt can't help."""

    def __init__(self, kind: str, text: str, *, wait: float = 0.0, fatal: type[ModelError] | None = None) -> None:
        super().__init__(text)
        self.kind, self.text, self.wait, self.fatal = kind, text, wait, fatal


def _status_failure(status: int, response: Any, message: str) -> _Failure:
    low = f"{message} {response.text}".lower()
    kind, text = str(status), f"status {status}: {message[:300]}"
    if status == 401:
        text += "; set the right key in OPENAI_API_KEY (or by the option api_key)"
    if status in (401, 403, 404) or "insufficient_quota" in low:
        return _Failure(kind, text, fatal=ModelAccessError)
    if status in (400, 413, 422):
        overflow = "context_length_exceeded" in low or "maximum context length" in low or "context window" in low
        return _Failure(kind, text, fatal=ContextOverflowError if overflow else ModelError)
    if status in (408, 409, 429) or status >= 500:
        return _Failure(kind, text, wait=_retry_after(response.headers.get("retry-after", "")))
    return _Failure(kind, text, fatal=ModelError)


def _retry_after(header: str) -> float:
    """Return the seconds that a ``Retry-After`` header asks for: a number, or a date."""
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except (ValueError, TypeError):
        return 0.0
