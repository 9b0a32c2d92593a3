"""Talking to a language model: the vocabulary, and a client for servers of the OpenAI protocol.

Agents, simulated twins and judges share both. `ChatClient` retries what may pass, gives up at once on what won't,
counts every failure by kind, and keeps the key to itself.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from adaplan_envs.errors import ConfigError, ContextOverflowError, ModelAccessError, ModelError, require

_log = logging.getLogger(__name__)

NO_KEY = "none"
"""Sent where a server of the user's needs no key: the client insists on one."""
MAX_WAIT = 60.0
"""Seconds; a server that asks for a longer pause is given up."""

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

    Raises:
        ConfigError: a value out of range.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int = 256
    stop: tuple[str, ...] = ()
    seed: int | None = None

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


class Chat(Protocol):
    """Anything that answers messages: a `ChatClient`, a model of `adaplan_agents.models`, a test's stand-in."""

    async def chat(self, messages: Sequence[Message], sampling: Sampling | None = None) -> ChatReply:
        """Return the answer to `messages`.

        Raises:
            ModelError: there is none.
        """


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
        self._base_url = base_url or os.environ.get("OPENAI_BASE_URL") or None
        self._key = api_key or os.environ.get("OPENAI_API_KEY") or (NO_KEY if self._base_url else "")
        if not self._key:
            raise ModelAccessError("no key for the API: set OPENAI_API_KEY, or OPENAI_BASE_URL for a server of yours")
        self._timeout, self._retries, self._concurrency = timeout, retries, concurrency
        self._cache = Path(cache) if cache is not None else None
        self._prices = prices or (0.0, 0.0)
        self._extra = dict(extra or {})
        # Connections and semaphores belong to an event loop.
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[Any, asyncio.Semaphore]] = WeakKeyDictionary()
        self._jitter = random.Random()  # spreads retries in time; touches no result

    async def chat(self, messages: Sequence[Message], sampling: Sampling | None = None) -> ChatReply:
        """Return the answer to `messages`.

        Raises:
            ModelAccessError: wrong key, unknown model, no quota: no use in going on.
            ContextOverflowError: the messages do not fit the model's window.
            ModelError: no usable answer after all attempts, or the server refuses the request.
        """
        request = self._request(messages, sampling or Sampling())
        path = self._cache_path(request)
        if path is not None and (kept := read_cache(path)) is not None:
            return kept
        client, semaphore = self._connection()
        async with semaphore:
            reply = await self._attempts(client, request)
        if path is not None:
            write_cache(path, reply)
        return reply

    def describe(self) -> dict[str, Any]:
        """Return model and server, without any secret."""
        record: dict[str, Any] = {"model": self.model, "server": self._server()}
        return {**record, "extra": self._extra} if self._extra else record

    async def aclose(self) -> None:
        """Close the connections of the running event loop. Calling it twice is fine."""
        client, _ = self._by_loop.pop(asyncio.get_running_loop(), (None, None))
        if client is not None:
            await client.close()

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
        }
        return {key: value for key, value in {**request, **self._extra}.items() if value is not None}

    def _connection(self) -> tuple[Any, asyncio.Semaphore]:
        loop = asyncio.get_running_loop()
        if loop not in self._by_loop:
            client = self._openai.AsyncOpenAI(
                api_key=self._key, base_url=self._base_url, timeout=self._timeout, max_retries=0
            )
            self._by_loop[loop] = (client, asyncio.Semaphore(self._concurrency))
        return self._by_loop[loop]

    async def _attempts(self, client: Any, request: dict[str, Any]) -> ChatReply:
        for attempt in range(self._retries + 1):
            try:
                return self._reply(await self._post(client, request))
            except _Failure as failure:
                self.failures[failure.kind] += 1
                message = f"{self.model} at {self._server()}: {failure.text}"
                message = message.replace(self._key, "***") if self._key != NO_KEY else message
                wait = max(min(0.5 * 2**attempt, 30.0) * self._jitter.uniform(0.5, 1.0), failure.wait)
                if failure.fatal is not None:
                    raise failure.fatal(message) from None
                if attempt == self._retries or wait > MAX_WAIT:
                    raise ModelError(f"{message} (after {attempt + 1} attempts)") from None
                _log.info("%s; again in %.1f s", message, wait)
            await asyncio.sleep(wait)
        raise AssertionError("unreachable")

    async def _post(self, client: Any, request: dict[str, Any]) -> dict[str, Any]:
        """Send the request once and return the body.

        Raises:
            _Failure: whatever went wrong.
        """
        fields = dict(request)
        # top_k is no field of OpenAI's own protocol, but of most servers that follow it.
        body = {"top_k": fields.pop("top_k")} if "top_k" in fields else None
        known = {"model", "messages", "temperature", "top_p", "max_tokens", "stop", "seed"}
        body = {**(body or {}), **{key: fields.pop(key) for key in list(fields) if key not in known}}
        openai = self._openai
        try:
            raw = await client.chat.completions.with_raw_response.create(**fields, extra_body=body or None)
            found = json.loads(raw.http_response.content)
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
        content = json.dumps([self._server(), request], sort_keys=True, ensure_ascii=False)
        name = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
        return self._cache / name[:2] / f"{name}.json"


class _Failure(Exception):
    """One attempt failed. `fatal` is the error to raise where another attempt can't help."""

    def __init__(self, kind: str, text: str, *, wait: float = 0.0, fatal: type[ModelError] | None = None) -> None:
        super().__init__(text)
        self.kind, self.text, self.wait, self.fatal = kind, text, wait, fatal


def _status_failure(status: int, response: Any, message: str) -> _Failure:
    low = f"{message} {response.text}".lower()
    kind, text = str(status), f"status {status}: {message[:300]}"
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


def read_cache(path: Path) -> ChatReply | None:
    """Return the kept answer; it costs nothing. One that can't be read is as good as none."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        usage = Usage(kept["usage"]["prompt_tokens"], kept["usage"]["completion_tokens"])
        return ChatReply(kept["text"], usage, kept["finish_reason"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_cache(path: Path, reply: ChatReply) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as work:
            whole = Path(work) / "reply"
            whole.write_text(json.dumps(asdict(reply)), encoding="utf-8")
            whole.replace(path)
    except OSError as error:
        _log.warning("an answer could not be kept in the cache: %s", error)
