"""The model behind simulated environments: loaded once, cached on disk, counted, on a budget."""

from __future__ import annotations

import asyncio
import concurrent.futures.thread  # noqa: F401 - its hook for the exit must be older than the one below
import inspect
import json
import os
import threading
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from adaplan_envs.chat import ChatClient, ChatReply, Message, Sampling, Usage
from adaplan_envs.chat_cache import cache_path, read_cache, write_cache
from adaplan_envs.errors import ConfigError, ModelAccessError, UnknownNameError, check_name

T = TypeVar("T")
GROUP = "adaplan.models"
_CONCURRENCY = 256
"""Requests under way at once to a server: every episode waits for one, and the episodes set the number."""


class BudgetSpentError(ModelAccessError):
    """The simulator's budget is spent: further episodes are pointless, a run stops with what it has."""


class Simulator:
    """A model that simulates, shared by all environments of a process that name the same one.

    Args:
        chat: an object with ``async chat(messages)``, or ``async chat(messages, sampling)``, that returns a text or a
            `ChatReply`.
        name: for results.
        cache: folder in which answers are kept by content; None keeps none.
        max_cost: US dollars, over all episodes, after which no more is asked.
        max_tokens: tokens, read and written, likewise. What comes from the cache is free.
    """

    def __init__(
        self,
        chat: Any,
        name: str,
        *,
        cache: Path | None = None,
        max_cost: float | None = None,
        max_tokens: int | None = None,
    ) -> None:
        for key, limit in (("max_cost", max_cost), ("max_tokens", max_tokens)):
            if limit is not None and limit <= 0:
                raise ConfigError(f"{key} is {limit}; it must be above 0, or None for no limit")
        self.chat, self.name = chat, name
        self.usage = Usage()
        """Of all episodes so far, without what came from the cache."""
        self.failures: Counter[str] = Counter()
        """How often which kind of unusable answer or failure happened, those included that were made good."""
        self._cache, self._max_cost, self._max_tokens = cache, max_cost, max_tokens
        parameters = inspect.signature(chat.chat).parameters.values()
        self._takes_sampling = len(parameters) > 1 or any(p.kind is p.VAR_POSITIONAL for p in parameters)

    async def ask(self, messages: Sequence[Message], sampling: Sampling) -> ChatReply:
        """Return the model's answer.

        Raises:
            BudgetSpentError: nothing may be asked any more.
            ModelError: there is no answer.
        """
        path = self._cache_path(messages, sampling)
        if path is not None and (kept := read_cache(path)) is not None:
            return kept
        self.check_budget()
        said = await (self.chat.chat(messages, sampling) if self._takes_sampling else self.chat.chat(messages))
        reply: ChatReply = ChatReply(said, Usage(requests=1)) if isinstance(said, str) else said
        self.usage += reply.usage
        if path is not None:
            write_cache(path, reply)
        return reply

    def all_failures(self) -> Counter[str]:
        """Return the failures by kind: of answers (``malformed``, ``leak`` ...) and of the server (``429`` ...)."""
        of_server = getattr(self.chat, "failures", None)
        return self.failures + (of_server if isinstance(of_server, Counter) else Counter())

    def check_budget(self) -> None:
        """Do nothing as long as something is left of the budget.

        Raises:
            BudgetSpentError: it is spent.
        """
        used = self.usage.prompt_tokens + self.usage.completion_tokens
        if self._max_cost is not None and self.usage.cost >= self._max_cost:
            raise BudgetSpentError(f"the simulator has cost ${self.usage.cost:.4f}: max_cost={self._max_cost} is spent")
        if self._max_tokens is not None and used >= self._max_tokens:
            raise BudgetSpentError(f"the simulator has used {used} tokens: max_tokens={self._max_tokens} is spent")

    def _cache_path(self, messages: Sequence[Message], sampling: Sampling) -> Path | None:
        if self._cache is None or (sampling.temperature > 0 and sampling.seed is None):
            return None
        described = self.chat.describe() if hasattr(self.chat, "describe") else {}
        return cache_path(self._cache, [self.name, described, [dict(message) for message in messages], repr(sampling)])


_shared: WeakValueDictionary[Any, Simulator] = WeakValueDictionary()
_lock = threading.Lock()


def get_simulator(
    spec: Any,
    *,
    options: Mapping[str, Any] | None = None,
    cache: str | Path | bool = True,
    max_cost: float | None = None,
    max_tokens: int | None = None,
) -> Simulator:
    """Return the simulator that `spec` names; equal arguments give the same one, so that budget and weights are shared.

    Args:
        spec: ``openai:MODEL``, another model of the entry-point group ``adaplan.models``, or an object with an
            ``async chat(messages)``.
        options: of the model that a string names.
        cache: folder for answers; True takes one in the user's cache folder, False keeps none. Answers of an object
            are kept only in a folder that is given.
        max_cost: see `Simulator`.
        max_tokens: see `Simulator`.

    Raises:
        UnknownNameError: no such model, or no such option of it.
        ConfigError: `spec` is neither; or a key among the options, which would end up in results.
        ModelAccessError: the model can't be used.
    """
    options = dict(options or {})
    named = isinstance(spec, str)
    if "api_key" in options:
        raise ConfigError("put the key into OPENAI_API_KEY: options are written into results")
    if not named and options:
        raise ConfigError("simulator_options belong to a simulator that is named by a string; this one is an object")
    if not named and not callable(getattr(spec, "chat", None)):
        raise ConfigError(
            f"a simulator is a model's name or has an async chat(messages); {type(spec).__name__} has not"
        )
    folder = _cache_folder(cache, named)
    identity = (spec, json.dumps(options, sort_keys=True, default=repr)) if named else id(spec)
    key = (identity, folder, max_cost, max_tokens, os.getpid())
    with _lock:
        found = _shared.get(key)
        if found is None:
            chat = _load(spec, options) if named else spec
            name = spec if named else str(getattr(spec, "name", type(spec).__name__))
            found = Simulator(chat, name, cache=folder, max_cost=max_cost, max_tokens=max_tokens)
            _shared[key] = found
        return found


def _cache_folder(cache: str | Path | bool, named: bool) -> Path | None:
    if isinstance(cache, bool):
        if not (cache and named):
            return None
        from platformdirs import user_cache_path

        return user_cache_path("adaplan") / "simulator"
    return Path(cache)


def _load(spec: str, options: dict[str, Any]) -> Any:
    kind, _, rest = spec.partition(":")
    if kind == "openai":
        make: Any = ChatClient
        options = {"concurrency": _CONCURRENCY, **options}
    else:
        points = {point.name: point for point in entry_points(group=GROUP)}
        if kind not in points:
            raise UnknownNameError("simulator", spec, ["openai", "scripted", *points])
        make = points[kind].load()
    taken = inspect.signature(make).parameters
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken.values()):
        valid = [name for name, parameter in taken.items() if parameter.kind is parameter.KEYWORD_ONLY]
        for name in options:
            check_name(f"option of the simulator {kind}", name, valid)
    return make(rest, **options)


_loops: dict[int, asyncio.AbstractEventLoop] = {}
_waiting: set[Future[Any]] = set()


def start(coroutine: Coroutine[Any, Any, T]) -> Future[T]:
    """Run `coroutine` in the loop that all simulated environments of this process share."""
    with _lock:
        loop = _loops.get(os.getpid())  # a thread does not survive a fork
        if loop is None:
            loop = _loops[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="adaplan-simulator", daemon=True).start()
            # Python's exit waits for the threads of executors before anything that atexit knows: a stopped run would
            # hang until the last answers are there. What is registered last is called first.
            threading._register_atexit(_give_up)  # type: ignore[attr-defined]
    return asyncio.run_coroutine_threadsafe(coroutine, loop)


def wait_for(future: Future[T]) -> T:
    """Return the result of what was started.

    Blocks the calling thread alone: environments that wait in threads of their own wait at the same time.
    """
    _waiting.add(future)
    if _stopping.is_set():  # asked for while the program was ending: `_give_up` may have missed it
        future.cancel()
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise
    finally:
        _waiting.discard(future)


_stopping = threading.Event()


def _give_up() -> None:
    _stopping.set()
    for future in list(_waiting):
        future.cancel()
