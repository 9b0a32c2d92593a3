"""`TokenSequence`: what is trained on, and how sequences become padded batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import torch
from torch import Tensor

from adaplan_agents.models.base import Provenance
from adaplan_agents.models.context import SAMPLED, Context
from adaplan_envs.core import stable_rng
from adaplan_envs.errors import ConfigError, check_name

T = TypeVar("T")

ROLES = tuple(sorted(str(role) for role in SAMPLED))
"""Whose tokens can be trained."""
IMITATED = tuple(sorted(Provenance))
"""Whose tokens can be imitated: of a text that is there already, any."""


@dataclass(frozen=True, slots=True)
class TokenSequence:
    """Tokens, and which of them are trained.

    Attributes:
        ids: all tokens, as the model read and wrote them.
        trained: for each, whether it is trained. Decided by provenance, never by a token's value.
        logprobs: for each, the log-probability that the sampler reported, 0.0 where it was not sampled; None where
            nobody sampled here (demonstrations).
        turn_ends: how many tokens there were after each turn of the episode; empty where nobody counted.
    """

    ids: tuple[int, ...]
    trained: tuple[bool, ...]
    logprobs: tuple[float, ...] | None = None
    turn_ends: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        sizes = {len(self.ids), len(self.trained), len(self.ids if self.logprobs is None else self.logprobs)}
        if len(sizes) > 1:
            raise ValueError(f"ids, trained and logprobs must be of one length, not {sorted(sizes)}")

    @classmethod
    def from_context(
        cls, context: Context, roles: Iterable[Provenance], turn_ends: Iterable[int] = ()
    ) -> TokenSequence:
        """Return the tokens of a conversation; those that were sampled in one of `roles` are trained."""
        return cls(context.ids, tuple(context.mask(*roles)), context.logprobs, tuple(turn_ends))

    @property
    def trained_tokens(self) -> int:
        """How many tokens are trained."""
        return sum(self.trained)

    def spread(self, values: Sequence[float]) -> list[float]:
        """Return for each token the value of its turn: one of `values` for each turn that was played.

        Tokens behind the last turn, of an answer that was never played, have none: 0.
        """
        found: list[float] = []
        for value, end in zip(values, self.turn_ends, strict=False):
            found += [value] * (end - len(found))
        return found + [0.0] * (len(self.ids) - len(found))

    def __len__(self) -> int:
        return len(self.ids)


def parse_roles(roles: Iterable[str], valid: Sequence[str] = ROLES) -> tuple[Provenance, ...]:
    """Return the provenances that role names mean.

    Raises:
        ConfigError: there is none, or one that can't be trained.
    """
    found = tuple(Provenance(check_name("role", role, valid)) for role in roles)
    if not found:
        raise ConfigError(f"no role is trained; name {' or '.join(ROLES)}, or both")
    return found


@dataclass(frozen=True, slots=True)
class Batch:
    """Sequences padded on the right to one length; padding is never trained.

    Attributes:
        rows: which of the mini-batch's sequences these are, in order.
        tokens_BT: token ids.
        mask_BT: True where trained.
        sampler_logprobs_BT: as the sampler reported them; None where nobody sampled.
    """

    rows: tuple[int, ...]
    tokens_BT: Tensor
    mask_BT: Tensor
    sampler_logprobs_BT: Tensor | None

    def take(self, values_B: Tensor) -> Tensor:
        """Return the entries (rows) of these sequences out of a tensor of the whole mini-batch."""
        return values_B[list(self.rows)].to(self.tokens_BT.device)

    def take_tokens(self, values_BT: Tensor) -> Tensor:
        """Return the same of a tensor with a column for each token, as wide as these sequences are."""
        return self.take(values_BT)[:, : self.tokens_BT.shape[1]]


def pass_tokens(device: torch.device | str) -> int:
    """Return how many tokens go fast through a model at once: on a CPU what its caches hold, on a GPU more."""
    return 2048 if torch.device(device).type == "cpu" else 16384


def cut(sequences: Sequence[TokenSequence], tokens: int | None, device: torch.device | str = "cpu") -> list[Batch]:
    """Cut a mini-batch into micro-batches of at most `tokens` tokens, padding included; None for `pass_tokens`.

    Sorted by length, so that little is padded, and the longest first, so that a lack of memory shows at once. Equal
    sequences give equal batches. A sequence longer than `tokens` is a batch of its own.
    """
    if tokens is None:
        tokens = pass_tokens(device)
    order = sorted(range(len(sequences)), key=lambda row: -len(sequences[row]))
    batches, start = [], 0
    while start < len(order):
        count = max(1, tokens // len(sequences[order[start]]))
        batches.append(_pad(sequences, order[start : start + count], device))
        start += count
    return batches


def _pad(sequences: Sequence[TokenSequence], rows: list[int], device: torch.device | str) -> Batch:
    width = max(len(sequences[row]) for row in rows)
    tokens_BT = torch.zeros(len(rows), width, dtype=torch.long)
    mask_BT = torch.zeros(len(rows), width, dtype=torch.bool)
    sampled = all(sequences[row].logprobs is not None for row in rows)
    logprobs_BT = torch.zeros(len(rows), width) if sampled else None
    for number, row in enumerate(rows):
        sequence, length = sequences[row], len(sequences[row])
        tokens_BT[number, :length] = torch.tensor(sequence.ids)
        mask_BT[number, :length] = torch.tensor(sequence.trained)
        if logprobs_BT is not None:
            logprobs_BT[number, :length] = torch.tensor(sequence.logprobs)
    mask_BT[:, 0] = False  # nothing predicts the first token
    return Batch(
        tuple(rows),
        tokens_BT.to(device),
        mask_BT.to(device),
        None if logprobs_BT is None else logprobs_BT.to(device),
    )


def joint_mask(batches: Sequence[Batch]) -> Tensor:
    """Return the mask of the whole mini-batch that was cut into `batches`, bool of shape [B, T]."""
    rows = sum(len(batch.rows) for batch in batches)
    mask_BT = torch.zeros(rows, max((batch.mask_BT.shape[1] for batch in batches), default=1), dtype=torch.bool)
    for batch in batches:
        mask_BT[list(batch.rows), : batch.mask_BT.shape[1]] = batch.mask_BT.cpu()
    return mask_BT


def take_shuffled(items: Sequence[T], start: int, count: int, *seed: object) -> list[T]:
    """Return `count` items from position `start` of an endless stream: epoch after epoch, each shuffled its own way.

    A function of its arguments alone, so that a run knows its place in the data by its step.
    """
    stream: list[int] = []
    for epoch in range(start // len(items), (start + count - 1) // len(items) + 1):
        stream += _shuffled(len(items), "epoch", *seed, epoch)
    return [items[place] for place in stream[start % len(items) : start % len(items) + count]]


@lru_cache(maxsize=4)
def _shuffled(count: int, *seed: object) -> tuple[int, ...]:
    """Return the order of an epoch, which thousands of steps may ask for."""
    order = list(range(count))
    stable_rng(*seed).shuffle(order)
    return tuple(order)
