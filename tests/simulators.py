"""Simulators for tests."""

from __future__ import annotations

import asyncio
from typing import Any


class Together:
    """A simulator that answers nobody before `count` have asked.

    Args:
        count: how many.
        answer: of each.
    """

    def __init__(self, count: int, answer: str) -> None:
        self.count, self.answer = count, answer
        self.waiting = 0
        self.everybody = asyncio.Event()

    async def chat(self, messages: Any) -> str:
        self.waiting += 1
        if self.waiting == self.count:
            self.everybody.set()
        await asyncio.wait_for(self.everybody.wait(), 30)
        return self.answer
