"""Log-probabilities and entropy of tokens without ever holding all logits.

With a vocabulary of 150,000 the logits of 8 sequences of 2,048 tokens take 10 GB in float32, and as much again for
their gradient. Here the output head runs over a chunk of tokens at a time and again in the backward pass, so that
only one chunk of logits exists at any moment.
"""

from __future__ import annotations

from collections.abc import Callable

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
            if torch.is_grad_enabled()
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
    log_normaliser_N = logits_NV.logsumexp(dim=-1)
    logprobs_N = logits_NV.gather(1, targets_N[:, None])[:, 0] - log_normaliser_N
    with torch.no_grad():
        probabilities_NV = (logits_NV - log_normaliser_N[:, None]).exp()
        entropies_N = log_normaliser_N - torch.linalg.vecdot(probabilities_NV, logits_NV)
    return logprobs_N, entropies_N
