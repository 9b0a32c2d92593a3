"""`TextSpace`: any string."""

from __future__ import annotations

from typing import Any

import gymnasium


class TextSpace(gymnasium.Space[str]):
    """The space of all strings.

    Gymnasium's own `Text` needs a charset and a length, rejects most of Unicode, and comes back blank from an
    `AsyncVectorEnv` with shared memory. This space has no limits; under shared memory, which cannot hold strings of
    any length, gymnasium refuses it with an error that names ``shared_memory=False``. ``gym.make_vec(id)`` without a
    vectorization mode picks a vector environment that is right from the start.
    """

    def __init__(self, seed: int | None = None) -> None:
        super().__init__(shape=None, dtype=None, seed=seed)

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Return a short random word. It is a member of the space, hardly ever a sensible action.

        For sensible ones sample from `TextEnv.admissible_actions`.
        """
        letters = self.np_random.integers(ord("a"), ord("z") + 1, size=int(self.np_random.integers(1, 9)))
        return "".join(map(chr, letters))

    def contains(self, x: Any) -> bool:
        return isinstance(x, str)

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TextSpace)

    def __repr__(self) -> str:
        return "TextSpace()"
