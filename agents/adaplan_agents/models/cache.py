"""A preallocated KV cache with one row for each conversation.

transformers' `DynamicCache` concatenates at every token, which is most of the time a small model takes to decode. Here
a token is written in place, and attention reads a slice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

GROWTH = 256
"""Columns are added in multiples of this."""


@dataclass(slots=True)
class Placement:
    """Where the tokens of the running forward pass go.

    Attributes:
        rows_N: the row of each sequence in the batch, or None where the batch is rows 0 to N - 1.
        columns_NT: the column of each token; padding goes to the last column of all, which is never read.
        length: columns that attention reads.
    """

    rows_N: Tensor | None
    columns_NT: Tensor
    length: int


class RowCache(Cache):  # type: ignore[misc]  # transformers is not typed
    """The cache of all layers. Set `placement`, then run the model with it.

    Args:
        layers: number of layers of the model.
    """

    def __init__(self, layers: int) -> None:
        self.placement: Placement | None = None
        self.rows = 0
        self.columns = 0
        super().__init__(layers=[_Layer(self) for _ in range(layers)])

    def reserve(self, rows: int, columns: int) -> None:
        """Make room for `rows` conversations of `columns` tokens, keeping what is there."""
        if rows > self.rows:
            self.rows = max(rows, 2 * self.rows)
        if columns > self.columns:
            self.columns = -(-max(columns, self.columns * 5 // 4) // GROWTH) * GROWTH
        for layer in self.layers:
            layer.fit()

    def copy_row(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` tokens of row `source` to row `target`."""
        for layer in self.layers:
            if layer.keys is not None:
                layer.keys[target, :, :length] = layer.keys[source, :, :length]
                layer.values[target, :, :length] = layer.values[source, :, :length]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return 0: positions and masks always come from the caller."""
        return 0

    def get_query_offset(self, layer_idx: int = 0) -> int:
        """Return 0: see `get_seq_length`."""
        return 0


class _Layer(CacheLayerMixin):  # type: ignore[misc]  # transformers is not typed
    """Keys and values of one layer, each [rows, heads, columns + 1, head size]; the last column takes the padding."""

    is_sliding = False

    def __init__(self, cache: RowCache) -> None:
        super().__init__()
        self.cache = cache

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self.keys = self._empty(key_states)
        self.values = self._empty(value_states)
        self.is_initialized = True

    def _empty(self, like: Tensor) -> Tensor:
        # Zeros, not garbage: a masked NaN times the weight 0 would still be NaN.
        return like.new_zeros(self.cache.rows, like.shape[1], self.cache.columns + 1, like.shape[-1])

    def fit(self) -> None:
        wanted = (self.cache.rows, self.cache.columns + 1)
        if self.keys is None or (self.keys.shape[0], self.keys.shape[2]) == wanted:
            return
        for name in ("keys", "values"):
            old = getattr(self, name)
            new = self._empty(old)
            new[: old.shape[0], :, : old.shape[2] - 1] = old[:, :, :-1]
            setattr(self, name, new)

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Write the new tokens of the batch and return what attention reads: [N, heads, length, head size]."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        place = self.cache.placement
        assert place is not None
        count = key_states.shape[0]
        rows_N = place.rows_N if place.rows_N is not None else torch.arange(count, device=key_states.device)
        # Two index tensors around a slice put the indexed dimensions first: [N, T, heads, head size].
        self.keys[rows_N[:, None], :, place.columns_NT] = key_states.transpose(1, 2)
        self.values[rows_N[:, None], :, place.columns_NT] = value_states.transpose(1, 2)
        if place.rows_N is None:
            return self.keys[:count, :, : place.length], self.values[:count, :, : place.length]
        return self.keys[place.rows_N, :, : place.length], self.values[place.rows_N, :, : place.length]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        assert self.cache.placement is not None
        return self.cache.placement.length, 0

    def get_seq_length(self) -> int:
        return 0

    def get_max_length(self) -> int:
        return -1
