"""`Context`: the exact tokens of a conversation, where each comes from, and how likely the sampled ones were."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from adaplan_agents.models.base import Provenance

SAMPLED = frozenset({Provenance.PLANNER, Provenance.EXECUTOR})


@dataclass(frozen=True, slots=True)
class Span:
    """Tokens ``start`` to ``stop`` (exclusive), all of one provenance, added at once."""

    start: int
    stop: int
    provenance: Provenance


class Context:
    """Append-only token ids. Their concatenation is exactly what the model saw; text is never tokenised twice."""

    def __init__(self) -> None:
        self._ids: list[int] = []
        self._logprobs: list[float] = []
        self._spans: list[Span] = []

    def append(self, ids: Iterable[int], provenance: Provenance, logprobs: Sequence[float] | None = None) -> None:
        """Add tokens at the end.

        Args:
            ids: token ids.
            provenance: where they come from.
            logprobs: for sampled ones, and only for those: the log-probability of each under the distribution that it
                was drawn from.

        Raises:
            ValueError: log-probabilities are missing, too many, or given for tokens that were not sampled.
        """
        ids = list(ids)
        if (logprobs is not None) != (provenance in SAMPLED):
            raise ValueError(f"log-probabilities belong to sampled tokens and to no others; these are {provenance}")
        if logprobs is not None and len(logprobs) != len(ids):
            raise ValueError(f"{len(ids)} tokens, but {len(logprobs)} log-probabilities")
        if ids:
            self._spans.append(Span(len(self._ids), len(self._ids) + len(ids), provenance))
            self._ids += ids
            self._logprobs += logprobs if logprobs is not None else [0.0] * len(ids)

    @property
    def ids(self) -> tuple[int, ...]:
        """All tokens."""
        return tuple(self._ids)

    @property
    def spans(self) -> tuple[Span, ...]:
        """The pieces, in order; they cover every token once."""
        return tuple(self._spans)

    @property
    def logprobs(self) -> tuple[float, ...]:
        """A log-probability for each token; 0.0 for those that were not sampled."""
        return tuple(self._logprobs)

    def mask(self, *provenances: Provenance) -> list[bool]:
        """Return for each token whether it is of one of `provenances`."""
        return [span.provenance in provenances for span in self._spans for _ in range(span.start, span.stop)]

    def fork(self) -> Self:
        """Return an independent copy."""
        twin = type(self)()
        twin._ids, twin._logprobs, twin._spans = self._ids.copy(), self._logprobs.copy(), self._spans.copy()
        return twin

    def __len__(self) -> int:
        return len(self._ids)
