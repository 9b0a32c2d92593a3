"""A server of the OpenAI protocol on loopback that goes wrong on purpose. Drives simulators, judges and agents."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

FAULTS = ("429", "500", "timeout", "hangup", "half", "empty", "no_json", "garbage", "wrong_model", "bad_key")
"""What can go wrong: too many requests (with ``Retry-After: 0``), a broken server, no answer, a closed connection, a
body that breaks off, no choices, a body that is no JSON, an answer without sense, an unknown model, a wrong key."""


class FaultServer:
    """Answers chat completions; some of them badly. A context manager; runs in a thread of its own.

    Args:
        answer: text for a request (its ``messages``).
        faults: what goes wrong, by the number of the request; None or the end of the list is a good answer.
        always: what goes wrong with every request after that.
        latency: seconds before every answer.
    """

    def __init__(
        self,
        answer: Callable[[list[dict[str, str]]], str],
        faults: Sequence[str | None] = (),
        *,
        always: str | None = None,
        latency: float = 0.0,
    ) -> None:
        assert not {*faults, always} - {*FAULTS, None}
        self.answer, self.faults, self.always, self.latency = answer, list(faults), always, latency
        self.requests: list[dict[str, Any]] = []
        self.served: Counter[str] = Counter()
        """How often which fault was served; good answers as ``ok``."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> FaultServer:
        self._thread.start()
        starting = asyncio.run_coroutine_threadsafe(asyncio.start_server(self._serve, "127.0.0.1", 0), self._loop)
        self._server = starting.result()
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    def __exit__(self, *details: object) -> None:
        async def stop() -> None:
            self._server.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = next(int(x.split(":")[1]) for x in head.splitlines() if x.startswith("content-length"))
                request = json.loads(await reader.readexactly(length))
                number = len(self.requests)
                self.requests.append(request)
                fault = self.faults[number] if number < len(self.faults) else self.always
                self.served[fault or "ok"] += 1
                await self._pause(3600 if fault == "timeout" else self.latency)
                if fault == "hangup":
                    return
                status, body = self._body(fault, request)
                length = len(body) * 2 if fault == "half" else len(body)
                extra = "retry-after: 0\r\n" if fault == "429" else ""
                head = (
                    f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n{extra}content-length: {length}\r\n\r\n"
                )
                writer.write(head.encode() + body)
                await writer.drain()
                if fault == "half":
                    return
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _pause(self, seconds: float) -> None:
        # Not asyncio.sleep: tests replace it, so that clients do not wait between attempts.
        over = self._loop.create_future()
        timer = self._loop.call_later(seconds, over.set_result, None)
        try:
            await over
        finally:
            timer.cancel()

    def _body(self, fault: str | None, request: dict[str, Any]) -> tuple[int, bytes]:
        if fault == "429":
            return 429, _error("slow down")
        if fault == "500":
            return 500, _error("broken")
        if fault == "wrong_model":
            return 404, _error("no such model", "model_not_found")
        if fault == "bad_key":
            return 401, _error("incorrect API key provided: sk-very-secret", "invalid_api_key")
        if fault == "no_json":
            return 200, b"<html>oops</html>"
        text = "Sorry, I'd rather not." if fault == "garbage" else self.answer(request["messages"])
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
        body = {
            "id": "1",
            "object": "chat.completion",
            "created": 1,
            "model": request["model"],
            "choices": [] if fault == "empty" else [choice],
            "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
        }
        whole = json.dumps(body).encode()
        return 200, whole[: len(whole) // 2] if fault == "half" else whole


def _error(message: str, code: str | None = None) -> bytes:
    return json.dumps({"error": {"message": message, "type": "error", "code": code}}).encode()
