"""Log-probabilities and entropy of tokens without ever holding all logits.

With a vocabulary of 150,000 the logits of 8 sequences of 2,048 tokens take 10 GB in float32, and as much again for
their gradient. Here the output head runs over a chunk of tokens at a time and, where there are several, again in the
backward pass, so that only one chunk of logits exists at any moment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

CHUNK_ELEMENTS = 2**25
"""Logits in a chunk: 128 MB in float32."""


def token_logprobs(
    hidden_BTD: Tensor,
    head: Callable[[Tensor], Tensor],
    tokens_BT: Tensor,
    mask_BT: Tensor,
    *,
    temperature: float = 1.0,
    vocabulary: int,
) -> tuple[Tensor, Tensor]:
    """Return the log-probability of each wanted token, and the entropy of the distribution it was drawn from.

    Args:
        hidden_BTD: last hidden states; position ``t`` predicts token ``t + 1``.
        head: hidden states [N, D] -> logits [N, V].
        tokens_BT: token ids.
        mask_BT: True where the result is wanted. The head runs over these positions only.
        temperature: that the tokens were sampled at; the distribution is the tempered one.
        vocabulary: V, to size the chunks.

    Returns:
        log-probabilities (with gradient) and entropies (without), float32 of shape [B, T], 0 where not wanted.
        Column 0 is always 0: nothing predicts the first token.
    """
    wanted_BT = mask_BT.clone()
    wanted_BT[:, 0] = False
    rows, columns = wanted_BT.nonzero(as_tuple=True)
    hidden_ND = hidden_BTD[rows, columns - 1]
    targets_N = tokens_BT[rows, columns]
    size = max(1, CHUNK_ELEMENTS // vocabulary)
    parts = []
    for start in range(0, len(targets_N), size):
        inputs = (hidden_ND[start : start + size], targets_N[start : start + size])
        parts.append(
            checkpoint(_chunk, *inputs, head, temperature, use_reentrant=False, preserve_rng_state=False)
            if torch.is_grad_enabled() and size < len(targets_N)
            else _chunk(*inputs, head, temperature)
        )
    logprobs_BT = torch.zeros(tokens_BT.shape, dtype=torch.float32, device=hidden_BTD.device)
    entropies_BT = torch.zeros_like(logprobs_BT)
    if not parts:
        return logprobs_BT + 0.0 * hidden_BTD.sum(), entropies_BT  # keeps the graph: a backward pass must not fail
    logprobs_N, entropies_N = (torch.cat(values) for values in zip(*parts, strict=True))
    return logprobs_BT.index_put((rows, columns), logprobs_N), entropies_BT.index_put((rows, columns), entropies_N)


def _chunk(
    hidden_ND: Tensor, targets_N: Tensor, head: Callable[[Tensor], Tensor], temperature: float
) -> tuple[Tensor, Tensor]:
    logits_NV = head(hidden_ND).float()
    if temperature != 1.0:
        logits_NV = logits_NV / temperature
    with torch.autocast(logits_NV.device.type, enabled=False):  # which would take the entropy in half precision
        found: tuple[Tensor, Tensor] = _Pick.apply(logits_NV, targets_N)  # type: ignore[no-untyped-call]
    return found


class _Pick(torch.autograd.Function):
    """Log-probabilities of targets, and entropies; two passes over the logits give its gradient, autograd takes six."""

    @staticmethod
    def forward(ctx: Any, logits_NV: Tensor, targets_N: Tensor) -> tuple[Tensor, Tensor]:
        logprobs_NV = logits_NV.log_softmax(dim=-1)
        probabilities_NV = logprobs_NV.exp()
        entropies_N = -torch.linalg.vecdot(probabilities_NV, logprobs_NV)
        ctx.save_for_backward(probabilities_NV, targets_N)
        ctx.mark_non_differentiable(entropies_N)
        return logprobs_NV.gather(1, targets_N[:, None])[:, 0], entropies_N

    @staticmethod
    def backward(ctx: Any, gradient_N: Tensor, _: Tensor) -> tuple[Tensor, None]:
        probabilities_NV, targets_N = ctx.saved_tensors
        # In place, as nothing else reads it: d log p(target) / d logits = one-hot(target) - p.
        gradient_NV = probabilities_NV.mul_(-gradient_N[:, None])
        gradient_NV.scatter_add_(1, targets_N[:, None], gradient_N[:, None])
        return gradient_NV, None
