"""Coroutines from code that is not async, also where an event loop is running already, as in a notebook."""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def run_sync(start: Callable[[], Coroutine[Any, Any, T]], on_interrupt: Callable[[], None] | None = None) -> T:
    """Run a coroutine to its end and return what it returns.

    Args:
        start: makes the coroutine.
        on_interrupt: where a thread is needed, called in the coroutine's loop when Ctrl-C or a notebook's stop button
            is pressed; by default the coroutine is cancelled.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(start())
    return _in_thread(start, on_interrupt)


def callable_from_sync_code(function: Callable[P, Coroutine[Any, Any, T]], name: str) -> Callable[P, T]:
    """Return `function` as one that is not async, called `name`, with the same signature."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return run_sync(lambda: function(*args, **kwargs))

    del call.__wrapped__  # or inspect would take it for a coroutine function
    call.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    call.__name__ = call.__qualname__ = name
    return call


def _in_thread(start: Callable[[], Coroutine[Any, Any, T]], on_interrupt: Callable[[], None] | None) -> T:
    # A notebook's loop is running this very cell, and can't run anything else until it returns.
    running: Future[Callable[[], object]] = Future()
    outcome: Future[T] = Future()

    async def main() -> T:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        running.set_result(lambda: loop.call_soon_threadsafe(on_interrupt or task.cancel))
        return await start()

    def body() -> None:
        try:
            outcome.set_result(asyncio.run(main()))
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=body, name="adaplan-run").start()
    try:
        return outcome.result()
    except KeyboardInterrupt:
        running.result()()
        wait([outcome])  # what was finished is written first
        raise
