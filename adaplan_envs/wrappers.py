"""Wrappers that fit any text environment."""

from __future__ import annotations

from typing import Any

import gymnasium


class HoldAtEnd(gymnasium.Wrapper[str, str, str, str]):
    """After the last step, repeat it with reward 0 instead of raising, until `reset`.

    Lets a vector environment step on while some of its episodes are over already (groups of unequal length).
    """

    def __init__(self, env: gymnasium.Env[str, str]) -> None:
        super().__init__(env)
        self._last: tuple[str, float, bool, bool, dict[str, Any]] | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        self._last = None
        return self.env.reset(seed=seed, options=options)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if self._last is not None:
            return self._last
        observation, reward, terminated, truncated, info = self.env.step(action)
        if terminated or truncated:
            self._last = (observation, 0.0, terminated, truncated, info)
        return observation, float(reward), terminated, truncated, info
