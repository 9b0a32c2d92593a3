"""The in-process sampler: continuous batching over conversations, each with a KV cache that lives across its turns.

- A **row** is one conversation's place in the cache. A turn costs the tokens that are new in it, never the history.
- A **request** asks for the continuation of a row. The engine decodes all running requests together, a token each per
  forward pass; one that ends makes room at once, and new ones join as soon as enough of them wait to be worth a
  forward pass of their own.

Everything runs in the event loop of the caller, between whose turns the engine decodes: no threads, no locks, and the
same order of events for the same seeds.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from adaplan_agents.models.cache import Placement, RowCache
from adaplan_agents.models.drawing import draw_tokens
from adaplan_agents.models.guide import Guide, Guides
from adaplan_envs.chat import Sampling
from adaplan_envs.errors import ContextOverflowError, ModelError

_log = logging.getLogger(__name__)

JOIN_RATIO = 4
"""New requests join when they are at least a quarter of the running ones: a forward pass for few costs nearly as much
as one for many."""
PREFILL_TOKENS = 8192
"""At most this many tokens, padding included, are read in one forward pass."""


@dataclass(slots=True, eq=False)
class Row:
    """A conversation's place in the cache: its index there, and how many tokens it holds."""

    index: int
    length: int = 0
    open: bool = True
    own_cache: Any = None
    """The model's own kind of cache, where `RowCache` does not fit it."""


@dataclass(frozen=True, slots=True)
class Continuation:
    """What was sampled.

    Attributes:
        tokens: sampled ids, the stop token included where there is one.
        logprobs: of each, under the distribution that it was drawn from.
        finish: ``stop``, or ``length`` where the token limit ended it.
    """

    tokens: list[int]
    logprobs: list[float]
    finish: Literal["stop", "length"]


@dataclass(slots=True, eq=False)
class _Request:
    row: Row
    pending: list[int]
    sampling: Sampling
    rng: random.Random
    stops: Callable[[list[int]], bool]
    future: asyncio.Future[Continuation]
    guide: Guide | None = None
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)


@dataclass(slots=True)
class EngineStats:
    """Counters since the engine was made.

    Attributes:
        read: tokens that went through the model as input, once each; shared prompts count once.
        shared: tokens that were copied from an equal prompt instead.
        sampled: tokens drawn.
        passes: forward passes.
        seconds: spent in them and in drawing.
    """

    read: int = 0
    shared: int = 0
    sampled: int = 0
    passes: int = 0
    seconds: float = 0.0


class Engine:
    """Samples from a decoder-only model of transformers.

    Args:
        model: from `AutoModelForCausalLM`, in the precision to sample with. Used without gradients, in eval mode.
        window: most tokens that a row may hold.
        guides: of the tokenizer, for answers of a given form; without them `Sampling.json_schema` and
            `Sampling.choices` have no effect.

    Models whose layers keep something else than keys and values (state-space layers, say) are found out by comparing
    a short text with and without the cache; they are then read from the start at every turn, with one warning.
    """

    def __init__(self, model: Any, *, window: int, guides: Guides | None = None) -> None:
        self.model = model
        self.window = window
        self._guides = guides
        self.stats = EngineStats()
        self._rows: list[Row] = []
        self._waiting: list[_Request] = []
        self._running: list[_Request] = []
        self._task: asyncio.Task[None] | None = None
        config = model.config.get_text_config()
        self._config = config
        inner = model.get_base_model() if hasattr(model, "get_base_model") else model
        parameters = inspect.signature(type(inner).forward).parameters
        # transformers 5.2x renames the argument; both names lead to the same thing.
        self._cache_name = "cache" if "cache" in parameters else "past_key_values"
        self._cache = RowCache(config.num_hidden_layers)
        self._masks = _mask_kinds(config)
        self._cached = True
        self._cached = self._check_cache()
        self.stats = EngineStats()

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        device: torch.device = next(self.model.parameters()).device
        return device

    def open(self) -> Row:
        """Return a new, empty row."""
        row = Row(len(self._rows))
        self._rows.append(row)
        return row

    def close(self, row: Row) -> None:
        """Give the row back. What it held is gone; closing twice is fine."""
        if not row.open:
            return
        row.open = False
        for request in [*self._waiting, *self._running]:
            if request.row is row and not request.future.done():
                request.future.cancel()
        self._waiting = [request for request in self._waiting if request.row is not row]
        self._running = [request for request in self._running if request.row is not row]
        last = self._rows.pop()
        if last is not row:  # rows stay without gaps, so that a batch is a slice
            if self._cached and last.length:  # a row that was never read may lie outside the cache
                self._cache.copy_row(last.index, row.index, last.length)
            self._rows[row.index] = last
            last.index = row.index

    def forget(self) -> None:
        """Forget all that rows hold, as after a change of the weights: it is read again when needed.

        Raises:
            ModelError: a request is running; half of its answer would be another model's.
        """
        if self._waiting or self._running:
            raise ModelError("the weights changed while answers were being sampled: wait for all episodes first")
        for row in self._rows:
            row.length, row.own_cache = 0, None

    async def sample(
        self,
        row: Row,
        context: Sequence[int],
        sampling: Sampling,
        rng: random.Random,
        *,
        stops: Callable[[list[int]], bool],
    ) -> Continuation:
        """Continue a row.

        Args:
            row: from `open`; only one request of a row at a time.
            context: all tokens of the conversation so far. What the row holds already must be their beginning; the
                rest, at least one token, is read now.
            sampling: how to draw, and at most how many tokens.
            rng: gives one uniform number for each sampled token.
            stops: called with the tokens sampled so far; True ends the answer.

        Raises:
            ConfigError: answers can't be held to the form.
            ContextOverflowError: prompt and answer do not fit the window.
            ModelError: the row is closed, or the model failed.
        """
        if not row.open:
            raise ModelError("this conversation is closed")
        if len(context) + sampling.max_tokens > self.window:
            raise ContextOverflowError(
                f"{len(context)} tokens and an answer of {sampling.max_tokens} do not fit the window of {self.window}"
            )
        if not self._cached:  # not every model can read several tokens behind a state that it has
            row.length, row.own_cache = 0, None
        elif row.length >= len(context):  # its last token must be read again for its logits
            row.length = len(context) - 1
        guide = self._guides.start(sampling) if self._guides else None
        future: asyncio.Future[Continuation] = asyncio.get_running_loop().create_future()
        request = _Request(row, list(context[row.length :]), sampling, rng, stops, future, guide)
        self._waiting.append(request)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())
        try:
            return await future
        except asyncio.CancelledError:
            self._waiting = [other for other in self._waiting if other is not request]
            self._running = [other for other in self._running if other is not request]
            raise

    async def _run(self) -> None:
        await asyncio.sleep(0)  # let everybody who is about to ask, ask
        while self._waiting or self._running:
            began = time.perf_counter()
            try:
                if self._waiting and JOIN_RATIO * len(self._waiting) >= len(self._running):
                    finished = self._join()
                else:
                    finished = self._decode()
            except Exception as error:
                self._fail(error)
                return
            self.stats.seconds += time.perf_counter() - began
            # A finished turn goes through the agent and the environment and comes back as a new request; a few
            # rounds of the loop let it, before the others decode on without it.
            for _ in range(8 if finished else 1):
                await asyncio.sleep(0)

    def _fail(self, error: Exception) -> None:
        for request in [*self._waiting, *self._running]:
            if not request.future.done():
                request.future.set_exception(_explained(error))
            request.row.length, request.row.own_cache = 0, None
        self._waiting, self._running = [], []

    def _join(self) -> bool:
        """Read the new tokens of waiting requests, draw one token for each, and let them join the running ones."""
        # The longest first, and as many as fit: little padding, bounded memory.
        self._waiting.sort(key=lambda request: -len(request.pending))
        count = max(1, PREFILL_TOKENS // len(self._waiting[0].pending))
        joining, self._waiting = self._waiting[:count], self._waiting[count:]
        prompts: dict[tuple[int, ...] | int, list[_Request]] = {}
        for request in joining:  # members of a group begin with the same prompt: it is read once
            key = tuple(request.pending) if request.row.length == 0 and self._cached else id(request)
            prompts.setdefault(key, []).append(request)
        leaders = [group[0] for group in prompts.values()]
        logits_NV = self._read([request.row for request in leaders], [request.pending for request in leaders])
        order = []
        for number, group in enumerate(prompts.values()):
            for request in group:
                if request is not group[0]:
                    self._cache.copy_row(group[0].row.index, request.row.index, group[0].row.length)
                    request.row.length = group[0].row.length
                    self.stats.shared += len(request.pending)
                order.append((number, request))
        self._running += [request for _, request in order]
        return self._draw([request for _, request in order], logits_NV[[number for number, _ in order]])

    def _decode(self) -> bool:
        """Read the last token of every running request and draw the next."""
        running = self._running
        logits_NV = self._read([request.row for request in running], [[request.tokens[-1]] for request in running])
        return self._draw(running, logits_NV)

    def _draw(self, requests: list[_Request], logits_NV: Tensor) -> bool:
        for number, request in enumerate(requests):
            if request.guide is not None:
                try:
                    request.guide.restrict(logits_NV[number])
                except ModelError as error:  # this answer's trouble alone
                    self._give_up(request, error)
        tokens, logprobs = draw_tokens(
            logits_NV, [request.sampling for request in requests], [request.rng.random() for request in requests]
        )
        self.stats.sampled += len(requests)
        done = []
        for request, token, logprob in zip(requests, tokens, logprobs, strict=True):
            request.tokens.append(token)
            request.logprobs.append(logprob)
            if request.guide is not None:
                request.guide.accept(token)
            stopped = request.stops(request.tokens)
            if request.future.done():
                request.row.length = 0  # what was read of the broken answer is no part of the conversation
                done.append(request)
            elif stopped or len(request.tokens) >= request.sampling.max_tokens:
                finish: Literal["stop", "length"] = "stop" if stopped else "length"
                request.future.set_result(Continuation(request.tokens, request.logprobs, finish))
                done.append(request)
        if done:
            self._running = [request for request in self._running if request not in done]
        return bool(done)

    def _give_up(self, request: _Request, error: Exception) -> None:
        request.guide = None
        if not request.future.done():
            request.future.set_exception(error)

    @torch.no_grad()
    def _read(self, rows: list[Row], tokens: list[list[int]]) -> Tensor:
        """Put `tokens` through the model behind what `rows` hold; return the logits after the last, float32 [N, V]."""
        self.model.eval()
        self.stats.read += sum(map(len, tokens))
        if not self._cached:
            return torch.cat([self._read_alone(row, ids) for row, ids in zip(rows, tokens, strict=True)])
        width = max(map(len, tokens))
        # The first rows, without a gap, are a slice of the cache; others have to be copied out of it. Decoding fills
        # small gaps: their extra token lands behind their last one, where the next real token overwrites it.
        top = max(row.index for row in rows) + 1
        dense = top == len(rows) or (width == 1 and top <= 2 * len(rows))
        batch = self._rows[:top] if dense else rows
        given = {id(row): ids for row, ids in zip(rows, tokens, strict=True)}
        columns_NT, ids_NT, ends = [], [], []
        for row in batch:
            ids = given.get(id(row), [0])
            padding = width - len(ids)
            columns_NT.append([-1] * padding + list(range(row.length, row.length + len(ids))))
            ids_NT.append([0] * padding + ids)
            ends.append(row.length + len(ids))
        length = max(ends)
        self._cache.reserve(len(self._rows), length)
        device = self.device
        positions_NT = torch.tensor(columns_NT, device=device)
        self._cache.placement = Placement(
            None if dense else torch.tensor([row.index for row in batch], device=device),
            torch.where(positions_NT < 0, self._cache.columns, positions_NT),
            length,
        )
        positions_NT = positions_NT.clamp(min=0)  # padding looks at the first token, and nobody looks at padding
        output = self.model(
            input_ids=torch.tensor(ids_NT, device=device),
            attention_mask=self._mask(positions_NT, length),
            position_ids=positions_NT,
            use_cache=True,
            logits_to_keep=1,
            **{self._cache_name: self._cache},
        )
        for row, ids in zip(rows, tokens, strict=True):
            row.length += len(ids)
        self.stats.passes += 1
        logits_NV: Tensor = output.logits[:, -1].float()
        return logits_NV[[row.index for row in rows]] if dense else logits_NV

    def _mask(self, positions_NT: Tensor, length: int) -> Any:
        """Return the additive attention mask [N, 1, T, length], or one for each kind of layer."""
        keys_L = torch.arange(length, device=positions_NT.device)
        distance_NTL = positions_NT[:, :, None] - keys_L
        dtype = next(self.model.parameters()).dtype
        least = torch.finfo(dtype).min

        def additive(allowed_NTL: Tensor) -> Tensor:
            return torch.zeros(allowed_NTL.shape, dtype=dtype, device=keys_L.device).masked_fill_(~allowed_NTL, least)[
                :, None
            ]

        masks = {
            kind: additive((distance_NTL >= 0) & (distance_NTL < reach) if reach else distance_NTL >= 0)
            for kind, reach in self._masks.items()
        }
        return masks.get("", masks)

    def _read_alone(self, row: Row, ids: list[int]) -> Tensor:
        """Do the same for one row, with the kind of cache that the model brings itself."""
        output = self.model(
            input_ids=torch.tensor([ids], device=self.device),
            use_cache=True,
            logits_to_keep=1,
            **{self._cache_name: row.own_cache},
        )
        row.own_cache = getattr(output, self._cache_name, None)
        row.length += len(ids)
        self.stats.passes += 1
        logits_NV: Tensor = output.logits[:, -1].float()
        return logits_NV

    def _check_cache(self) -> bool:
        """Compare two short rows of unequal length, read in two turns, with the same texts read at once."""
        vocabulary = self._config.vocab_size
        texts = [[(7 * t + 3) % vocabulary for t in range(9)], [(5 * t + 1) % vocabulary for t in range(14)]]
        rows = [self.open() for _ in texts]
        try:
            self._read(rows, [texts[0][:6], texts[1][:3]])
            got_NV = self._read(rows, [texts[0][6:], texts[1][3:]])
            with torch.no_grad():
                plain = [self.model(input_ids=torch.tensor([text], device=self.device)).logits[0, -1] for text in texts]
            wanted_NV = torch.stack(plain).float()
            gap = float((got_NV - wanted_NV).abs().max() / wanted_NV.std().clamp(min=1e-6))
            exact = next(self.model.parameters()).dtype == torch.float32
            reason = f"logits differ by {gap:.1e} of their spread" if gap > (1e-2 if exact else 0.3) else ""
        except Exception as error:  # whatever a model's own code does with a cache that it does not know
            reason = f"{type(error).__name__}: {error}"
        finally:
            for row in rows:
                self.close(row)
        if reason:
            _log.warning(
                "%s does not work with the shared cache (%s): conversations are decoded one at a time, which is slow.",
                type(self.model).__name__,
                reason,
            )
        return not reason


def _mask_kinds(config: Any) -> dict[str, int]:
    """Return how far each kind of layer looks back: kind -> tokens, 0 for all. One kind only is called ``""``."""
    kinds = sorted(set(getattr(config, "layer_types", None) or ()))
    window = getattr(config, "sliding_window", None) or 0
    if len(kinds) > 1:
        return {kind: window if kind == "sliding_attention" else 0 for kind in kinds}
    if kinds:
        window = window if kinds == ["sliding_attention"] else 0
    return {"": window}


def _explained(error: Exception) -> Exception:
    """Return the error of a forward pass with what mends it, where that is known."""
    if isinstance(error, torch.OutOfMemoryError):
        return ModelError(f"out of memory while sampling: run fewer episodes at once or shorten the window ({error})")
    return error if isinstance(error, ModelError) else ModelError(f"the model failed: {type(error).__name__}: {error}")
