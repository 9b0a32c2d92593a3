"""How well simulated episodes overlap: 64 at once against one after another, on a server that takes 200 ms an answer.

`python benchmarks/bench_simulated.py` prints the ratio; the goal is 40. The server runs in a process of its own.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from time import perf_counter
from typing import Any

from adaplan_evaluation import evaluate

EPISODES, ALONE, STEPS, LATENCY = 64, 2, 10, 0.2
GOAL = 40.0


def episodes_take(url: str, episodes: int, concurrency: int) -> float:
    """Return the seconds that `episodes` simulated episodes take."""
    settings: dict[str, Any] = {
        "backend": "simulated",
        "simulator": "openai:m",
        "simulator_options": {"base_url": url},
        "cache": False,
    }
    start = perf_counter()
    run = evaluate("random", "maze", episodes=episodes, max_steps=STEPS, concurrency=concurrency, env_settings=settings)
    seconds = perf_counter() - start
    assert [episode.steps for episode in run.episodes] == [STEPS] * episodes
    return seconds


def run() -> list[dict[str, Any]]:
    """Return the ratio of episodes per second: 64 at once over one after another."""
    with subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"
        try:
            episodes_take(url, 1, 1)  # imports and connections
            alone = episodes_take(url, ALONE, 1) / ALONE * EPISODES
            together = episodes_take(url, EPISODES, EPISODES)
        finally:
            server.terminate()
    return [
        {
            "name": "simulated episodes/s, 64 at once over one after another",
            "ours": EPISODES / together,
            "baseline": EPISODES / alone,
            "ratio": alone / together,
            "goal": GOAL,
        }
    ]


async def serve() -> None:
    """Answer chat completions after `LATENCY` seconds, and print the port."""
    answer = {"notes": "", "valid": True, "observation": "You go on.", "done": False, "success": False}
    body = json.dumps(
        {
            "id": "1",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [
                {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": json.dumps(answer)}}
            ],
            "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
        }
    ).encode()
    reply = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode().lower():
                length = next(int(x.split(":")[1]) for x in head.splitlines() if x.startswith("content-length"))
                await reader.readexactly(length)
                await asyncio.sleep(LATENCY)
                writer.write(reply)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(one, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    if "--serve" in sys.argv:
        asyncio.run(serve())
    else:
        for row in run():
            print(
                f"{row['name']}: ours {row['ours']:.2f}, baseline {row['baseline']:.2f}, ratio {row['ratio']:.1f} "
                f"(goal {row['goal']:.0f})"
            )
