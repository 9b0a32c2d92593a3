"""Drawing tokens from logits, for many conversations at once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from adaplan_envs.chat import Sampling


def draw_tokens(
    logits_NV: Tensor, samplings: Sequence[Sampling], uniforms: Sequence[float]
) -> tuple[list[int], list[float]]:
    """Draw one token a row.

    Args:
        logits_NV: float32 logits.
        samplings: temperature, top_k and top_p of each row; temperature 0 takes the most likely token.
        uniforms: a number in [0, 1) for each row. The same number and logits give the same token, whatever the row
            is batched with.

    Returns:
        Token ids, and the log-probability of each under the distribution that it was drawn from: tempered and cut.
        For a greedy row, where that would always be 0, under the distribution of temperature 1.
    """
    device = logits_NV.device
    heat_N = torch.tensor([sampling.temperature for sampling in samplings], device=device)
    logprobs_NV = (logits_NV / torch.where(heat_N > 0, heat_N, 1.0)[:, None]).log_softmax(-1)
    greedy = [sampling.temperature == 0 for sampling in samplings]
    if all(greedy):
        tokens_N = logits_NV.argmax(-1)
    else:
        cut = [number for number, sampling in enumerate(samplings) if sampling.top_k or sampling.top_p < 1]
        if cut:
            logprobs_NV[cut] = _cut(logprobs_NV[cut], [samplings[number] for number in cut])
        # The inverse of the distribution function; in double precision, as a large vocabulary adds up many small terms.
        heights_NV = logprobs_NV.double().exp().cumsum(-1)
        levels_N = torch.tensor(uniforms, dtype=torch.float64, device=device) * heights_NV[:, -1]
        tokens_N = torch.searchsorted(heights_NV, levels_N[:, None], right=True)[:, 0]
        tokens_N = tokens_N.clamp_(max=logits_NV.shape[1] - 1)
        if any(greedy):
            tokens_N = torch.where(torch.tensor(greedy, device=device), logits_NV.argmax(-1), tokens_N)
    chosen_N = logprobs_NV.gather(1, tokens_N[:, None])[:, 0]
    return tokens_N.tolist(), chosen_N.tolist()


def _cut(logprobs_NV: Tensor, samplings: Sequence[Sampling]) -> Tensor:
    """Return the log-probabilities renormalised over the tokens that top_k and top_p keep."""
    vocabulary = logprobs_NV.shape[1]
    sorted_NV, order_NV = logprobs_NV.sort(dim=-1, descending=True, stable=True)
    before_NV = sorted_NV.exp().cumsum(-1) - sorted_NV.exp()
    counts = [sampling.top_k or vocabulary for sampling in samplings]
    shares = [sampling.top_p for sampling in samplings]
    device = logprobs_NV.device
    ranks_V = torch.arange(vocabulary, device=device)
    dropped_NV = ranks_V >= torch.tensor(counts, device=device)[:, None]
    dropped_NV |= before_NV >= torch.tensor(shares, device=device)[:, None]
    dropped_NV[:, 0] = False
    kept_NV = sorted_NV.masked_fill(dropped_NV, -torch.inf)
    return torch.empty_like(logprobs_NV).scatter_(1, order_NV, kept_NV).log_softmax(-1)
