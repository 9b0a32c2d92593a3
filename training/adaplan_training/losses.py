"""Advantages and losses: pure functions on small dataclasses of tensors.

Dimensions are named in the suffixes: B sequences, T tokens (padded), G members of a group. Column ``t`` of a ``_BT``
tensor belongs to token ``t`` itself, so column 0, which nothing predicts, is never trained.

A mini-batch is normalised once, by `token_weights`; each micro-batch then adds its part of one weighted sum. So the
result does not depend on how the mini-batch was cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Aggregation = Literal["token_mean", "sequence_mean", "dr_grpo"]


@dataclass(frozen=True, slots=True)
class LossConfig:
    """What the policy loss looks like.

    Attributes:
        clip_low: the ratio is clipped below at ``1 - clip_low``.
        clip_high: and above at ``1 + clip_high`` (larger than `clip_low`: "clip higher").
        kl_weight: beta of Eq. 6, the weight of the KL divergence from the reference policy; 0 needs no reference.
        aggregation: how token losses become one number, see `token_weights`.
        importance_cap: upper bound of the weight that corrects for a sampler whose probabilities differ from the
            trainer's (another precision, another engine); None trusts the sampler.
    """

    clip_low: float = 0.2
    clip_high: float = 0.28
    kl_weight: float = 0.0
    aggregation: Aggregation = "token_mean"
    importance_cap: float | None = 2.0


@dataclass(frozen=True, slots=True)
class PolicyBatch:
    """What the policy loss needs of a micro-batch.

    Attributes:
        logprobs_BT: of the tokens under the policy that is trained; carries the gradient.
        old_logprobs_BT: under the policy that played, as the trainer computes them.
        weights_BT: from `token_weights`; 0 for every token that is not trained.
        advantages_B: one a sequence.
        turn_advantages_BT: what is added to it at each token, or None.
        sampler_logprobs_BT: as the sampler reported them, or None.
        reference_logprobs_BT: under the frozen reference, or None where ``kl_weight`` is 0.
    """

    logprobs_BT: Tensor
    old_logprobs_BT: Tensor
    weights_BT: Tensor
    advantages_B: Tensor
    sampler_logprobs_BT: Tensor | None = None
    reference_logprobs_BT: Tensor | None = None
    turn_advantages_BT: Tensor | None = None


def group_advantages(rewards_G: Tensor, *, scale: bool = True, epsilon: float = 1e-6) -> tuple[Tensor, bool]:
    """Return the advantages of the members of one group, and whether the group is dead.

    Args:
        rewards_G: the total reward of each episode of the group.
        scale: divide by the standard deviation (GRPO); without, only the mean is taken off (Dr. GRPO).
        epsilon: added to the standard deviation.

    Returns:
        ``(r - mean) / (std + epsilon)``, with the population's standard deviation; and True where all rewards are
        equal, so that the group teaches nothing and must leave the denominator too.

    Source: PilotRL, section 3; Dr. GRPO for ``scale=False``.
    """
    centred_G = rewards_G - rewards_G.mean()
    dead = bool((rewards_G == rewards_G[0]).all())
    if dead:
        return torch.zeros_like(rewards_G), True
    return (centred_G / (rewards_G.std(correction=0) + epsilon) if scale else centred_G), False


def turn_advantages(
    observations: Sequence[Sequence[str]],
    rewards: Sequence[Sequence[float]],
    *,
    discount: float,
    scale: bool = True,
) -> list[list[float]]:
    """Return an advantage for each turn of each member of a group: its return among turns that saw the same.

    An episode's advantage says nothing of which of its actions were the good ones. Members of a group meet the same
    states; where they do, what came after tells the actions apart. Turns whose observation nobody else saw have 0.

    Args:
        observations: what each turn of each member saw.
        rewards: what each turn brought.
        discount: the return of a turn is its reward plus `discount` times the return of the next.
        scale: see `group_advantages`.

    Source: GiGPO, arXiv 2505.10978, section 4; not part of PilotRL.
    """
    by_state: dict[str, list[tuple[int, int, float]]] = {}
    for member, (seen, brought) in enumerate(zip(observations, rewards, strict=True)):
        later = 0.0
        for turn in reversed(range(len(brought))):
            later = brought[turn] + discount * later
            by_state.setdefault(seen[turn], []).append((member, turn, later))
    found = [[0.0] * len(brought) for brought in rewards]
    for turns in by_state.values():
        returns_G = torch.tensor([value for _, _, value in turns], dtype=torch.float64)
        advantages_G, _ = group_advantages(returns_G, scale=scale)
        for (member, turn, _), advantage in zip(turns, advantages_G.tolist(), strict=True):
            found[member][turn] = advantage
    return found


def token_weights(mask_BT: Tensor, aggregation: Aggregation, *, max_tokens: int = 1) -> Tensor:
    """Return the weight of every token of a mini-batch, so that the loss is ``sum(weight * token loss)``.

    Args:
        mask_BT: True for tokens that are trained. Sequences without any (dead groups, masked overlong ones) leave the
            denominator.
        aggregation: ``token_mean``: every token counts the same; ``sequence_mean``: every sequence counts the same;
            ``dr_grpo``: every token counts ``1 / (sequences * max_tokens)``, free of length bias.
        max_tokens: the constant of ``dr_grpo``: trainable tokens that an episode may have.

    Returns:
        float32 tensor of shape [B, T]; all zero where nothing is trained.
    """
    mask_BT = mask_BT.to(torch.float32)
    lengths_B = mask_BT.sum(dim=1)
    sequences = (lengths_B > 0).sum().clamp(min=1)
    if aggregation == "token_mean":
        return mask_BT / mask_BT.sum().clamp(min=1)
    if aggregation == "sequence_mean":
        return mask_BT / lengths_B.clamp(min=1)[:, None] / sequences
    if aggregation == "dr_grpo":
        return mask_BT / (sequences * max_tokens)
    raise ValueError(f"unknown aggregation {aggregation!r}: token_mean, sequence_mean or dr_grpo")


def policy_loss(batch: PolicyBatch, config: LossConfig) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the clipped policy-gradient loss with KL penalty, and metrics.

    Source: PilotRL, Eq. 6 (GRPO), with an upper clip of its own and truncated importance weights.

    Args:
        batch: one micro-batch.
        config: clip range, KL weight, importance cap.

    Returns:
        The loss, a scalar that adds up over micro-batches; and weighted sums that add up likewise: ``ratio``,
        ``clip_fraction``, ``kl`` (from the reference), ``policy_kl`` (from the policy that played),
        ``importance`` (mean weight) and ``mismatch`` (KL of sampler from trainer).
    """
    log_ratio_BT = batch.logprobs_BT - batch.old_logprobs_BT
    trained_BT = batch.weights_BT > 0
    log_ratio_BT = torch.where(trained_BT, log_ratio_BT, 0.0)  # padding may hold anything, even NaN
    ratio_BT = log_ratio_BT.exp()
    advantages_BT = batch.advantages_B[:, None]
    if batch.turn_advantages_BT is not None:
        advantages_BT = advantages_BT + batch.turn_advantages_BT
    clipped_BT = ratio_BT.clamp(1 - config.clip_low, 1 + config.clip_high)
    token_loss_BT = -torch.minimum(ratio_BT * advantages_BT, clipped_BT * advantages_BT)

    def mean(values_BT: Tensor) -> Tensor:
        return (batch.weights_BT * values_BT).sum()

    with torch.no_grad():
        bites_BT = torch.where(advantages_BT > 0, ratio_BT > 1 + config.clip_high, ratio_BT < 1 - config.clip_low)
        metrics = {
            "ratio": mean(ratio_BT),
            "clip_fraction": mean((bites_BT & (advantages_BT != 0)).float()),
            "policy_kl": mean(k3(-log_ratio_BT)),
        }
    if batch.sampler_logprobs_BT is not None:
        gap_BT = torch.where(trained_BT, batch.old_logprobs_BT - batch.sampler_logprobs_BT, 0.0).detach()
        metrics["mismatch"] = mean(k3(gap_BT))
        if config.importance_cap is not None:
            weight_BT = gap_BT.exp().clamp(max=config.importance_cap)
            metrics["importance"] = mean(weight_BT)
            token_loss_BT = token_loss_BT * weight_BT
    if config.kl_weight:
        if batch.reference_logprobs_BT is None:
            raise ValueError("kl_weight is not 0, but there are no reference_logprobs_BT")
        gap_BT = torch.where(trained_BT, batch.reference_logprobs_BT - batch.logprobs_BT, 0.0)
        divergence_BT = k3(gap_BT)
        metrics["kl"] = mean(divergence_BT).detach()
        token_loss_BT = token_loss_BT + config.kl_weight * divergence_BT
    return mean(token_loss_BT), metrics


def imitation_loss(logprobs_BT: Tensor, weights_BT: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the negative log-likelihood of the trained tokens (SFT), and no metrics of its own."""
    return -(weights_BT * torch.where(weights_BT > 0, logprobs_BT, 0.0)).sum(), {}


def k3(log_ratio: Tensor) -> Tensor:
    """Return ``exp(x) - x - 1``, which estimates KL(p, q) from samples of p with ``x = log q - log p``.

    Never negative, unbiased, and of low variance where p and q are close (Schulman's third estimator).
    """
    return log_ratio.exp() - log_ratio - 1


def overlong_penalty(tokens: int, limit: int, buffer: int) -> float:
    """Return the penalty for an episode that comes close to its token limit: 0 down to -1.

    Args:
        tokens: length of the episode.
        limit: where the episode is cut.
        buffer: the last tokens before `limit`, over which the penalty grows linearly from 0 to -1.

    Source: the soft overlong punishment that PilotRL's scripts use (buffer 3072 of 14336).
    """
    if buffer <= 0:
        return 0.0
    return -min(1.0, max(0.0, (tokens - (limit - buffer)) / buffer))
