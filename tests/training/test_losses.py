"""Losses against hand calculations in float64, a slow loop over tokens, and finite differences."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from adaplan_training.losses import (
    LossConfig,
    PolicyBatch,
    group_advantages,
    imitation_loss,
    k3,
    overlong_penalty,
    policy_loss,
    token_weights,
    turn_advantages,
)

MASK = torch.tensor([[0, 1, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]], dtype=torch.bool)


def random_batch(seed: int, mask: torch.Tensor, aggregation: str = "token_mean") -> PolicyBatch:
    generator = torch.Generator().manual_seed(seed)

    def draw() -> torch.Tensor:
        return -torch.rand(mask.shape, generator=generator, dtype=torch.float64) * 2

    weights = token_weights(mask, aggregation, max_tokens=7).double()  # type: ignore[arg-type]
    advantages = torch.randn(len(mask), generator=generator, dtype=torch.float64)
    return PolicyBatch(draw().requires_grad_(), draw(), weights, advantages, draw(), draw())


def slow_loss(batch: PolicyBatch, config: LossConfig) -> float:
    """The formula of the paper, token by token, with `math`."""
    total = 0.0
    assert batch.sampler_logprobs_BT is not None
    assert batch.reference_logprobs_BT is not None
    for b in range(len(batch.advantages_B)):
        for t in range(batch.weights_BT.shape[1]):
            weight = batch.weights_BT[b, t].item()
            if weight == 0:
                continue
            new, old, sampled, reference, advantage = (
                value.item()
                for value in (
                    batch.logprobs_BT[b, t],
                    batch.old_logprobs_BT[b, t],
                    batch.sampler_logprobs_BT[b, t],
                    batch.reference_logprobs_BT[b, t],
                    batch.advantages_B[b],
                )
            )
            ratio = math.exp(new - old)
            clipped = min(max(ratio, 1 - config.clip_low), 1 + config.clip_high)
            surrogate = min(ratio * advantage, clipped * advantage)
            if config.importance_cap is not None:
                surrogate *= min(math.exp(old - sampled), config.importance_cap)
            divergence = math.exp(reference - new) - (reference - new) - 1
            total += weight * (-surrogate + config.kl_weight * divergence)
    return total


@pytest.mark.parametrize("aggregation", ["token_mean", "sequence_mean", "dr_grpo"])
@pytest.mark.parametrize("cap", [None, 1.5])
def test_the_loss_equals_a_slow_loop_over_tokens(aggregation: str, cap: float | None) -> None:
    config = LossConfig(clip_low=0.2, clip_high=0.3, kl_weight=0.1, importance_cap=cap)
    for seed in range(20):
        mask = torch.rand(5, 9, generator=torch.Generator().manual_seed(seed)) < 0.5
        batch = random_batch(seed, mask, aggregation)
        assert policy_loss(batch, config)[0].item() == pytest.approx(slow_loss(batch, config), abs=1e-12)


def test_gradients_equal_finite_differences() -> None:
    config = LossConfig(kl_weight=0.2, importance_cap=1.5)
    for seed in range(5):
        batch = random_batch(seed, MASK)

        def loss(logprobs: torch.Tensor, batch: PolicyBatch = batch) -> torch.Tensor:
            return policy_loss(
                PolicyBatch(
                    logprobs,
                    batch.old_logprobs_BT,
                    batch.weights_BT,
                    batch.advantages_B,
                    batch.sampler_logprobs_BT,
                    batch.reference_logprobs_BT,
                ),
                config,
            )[0]

        assert torch.autograd.gradcheck(loss, (batch.logprobs_BT,))


def test_micro_batches_add_up_to_the_mini_batch() -> None:
    mask = torch.rand(6, 8, generator=torch.Generator().manual_seed(1)) < 0.5
    for aggregation in ("token_mean", "sequence_mean", "dr_grpo"):
        whole = replace(random_batch(3, mask, aggregation), turn_advantages_BT=torch.randn(mask.shape))
        config = LossConfig(kl_weight=0.1)
        pieces = []
        for part in (slice(0, 1), slice(1, 4), slice(4, 6)):
            fields = [getattr(whole, name) for name in PolicyBatch.__dataclass_fields__]
            piece = PolicyBatch(*[None if each is None else each[part] for each in fields])
            pieces.append(policy_loss(piece, config))
        total, metrics = policy_loss(whole, config)
        assert sum(piece.item() for piece, _ in pieces) == pytest.approx(total.item(), abs=1e-12)
        for name, value in metrics.items():
            assert sum(part[name].item() for _, part in pieces) == pytest.approx(value.item(), abs=1e-12)


def test_a_hand_calculation() -> None:
    # One token, advantage 2, ratio 1.5, clipped at 1.28: loss -2.56 and no gradient.
    logprobs = torch.tensor([[0.0, math.log(0.3)]], dtype=torch.float64, requires_grad=True)
    batch = PolicyBatch(
        logprobs,
        torch.tensor([[0.0, math.log(0.2)]], dtype=torch.float64),
        torch.tensor([[0.0, 1.0]], dtype=torch.float64),
        torch.tensor([2.0], dtype=torch.float64),
    )
    loss, metrics = policy_loss(batch, LossConfig())
    loss.backward()
    assert loss.item() == pytest.approx(-2.56)
    assert logprobs.grad is not None
    assert logprobs.grad.abs().sum() == 0
    assert metrics["clip_fraction"].item() == 1.0
    assert metrics["ratio"].item() == pytest.approx(1.5)


def test_an_unchanged_policy_has_ratio_one_and_the_plain_policy_gradient() -> None:
    batch = random_batch(0, MASK)
    same = PolicyBatch(batch.logprobs_BT, batch.logprobs_BT.detach(), batch.weights_BT, batch.advantages_B)
    loss, metrics = policy_loss(same, LossConfig())
    loss.backward()
    assert metrics["ratio"].item() == pytest.approx(1.0, abs=1e-7)  # weights are float32
    assert metrics["clip_fraction"].item() == 0.0
    torch.testing.assert_close(batch.logprobs_BT.grad, -batch.weights_BT * batch.advantages_B[:, None])


def test_padding_may_hold_anything() -> None:
    batch = random_batch(0, MASK)
    reference = policy_loss(batch, LossConfig(kl_weight=0.1))[0]
    dirty = [
        torch.where(MASK, getattr(batch, name).detach(), math.nan)
        for name in ("logprobs_BT", "old_logprobs_BT", "sampler_logprobs_BT", "reference_logprobs_BT")
    ]
    dirty[0].requires_grad_()
    loss, _ = policy_loss(
        PolicyBatch(dirty[0], dirty[1], batch.weights_BT, batch.advantages_B, *dirty[2:]), LossConfig(kl_weight=0.1)
    )
    loss.backward()
    assert loss.item() == reference.item()
    assert dirty[0].grad is not None
    assert torch.isfinite(dirty[0].grad).all()
    assert imitation_loss(dirty[0], batch.weights_BT)[0].isfinite()


def test_token_weights_by_hand() -> None:
    third, quarter = 1 / 3, 1 / 4
    expected = {
        "token_mean": [[0, third, third, 0], [0, third, 0, 0], [0, 0, 0, 0]],
        "sequence_mean": [[0, quarter, quarter, 0], [0, 0.5, 0, 0], [0, 0, 0, 0]],
        "dr_grpo": [[0, 0.05, 0.05, 0], [0, 0.05, 0, 0], [0, 0, 0, 0]],
    }
    for aggregation, weights in expected.items():
        torch.testing.assert_close(token_weights(MASK, aggregation, max_tokens=10), torch.tensor(weights))  # type: ignore[arg-type]
    assert token_weights(torch.zeros(2, 3, dtype=torch.bool), "token_mean").sum() == 0
    with pytest.raises(ValueError, match="aggregation"):
        token_weights(MASK, "median")  # type: ignore[arg-type]


def test_advantages_by_hand() -> None:
    advantages, dead = group_advantages(torch.tensor([0.0, 1.0, 1.0, 2.0], dtype=torch.float64), epsilon=0)
    assert advantages.tolist() == pytest.approx([-math.sqrt(2), 0, 0, math.sqrt(2)])
    assert not dead
    advantages, _ = group_advantages(torch.tensor([0.0, 1.0, 1.0, 2.0]), scale=False)
    assert advantages.tolist() == [-1, 0, 0, 1]


def test_a_group_of_equal_rewards_is_dead_and_has_no_advantage() -> None:
    for reward in (0.0, 0.1, 1e9):
        advantages, dead = group_advantages(torch.full((7,), reward))
        assert dead
        assert advantages.tolist() == [0.0] * 7


def test_kl_is_zero_at_the_reference_never_negative_and_pulls_back() -> None:
    assert k3(torch.zeros(3)).tolist() == [0, 0, 0]
    assert (k3(torch.linspace(-3, 3, 50)) >= 0).all()
    batch = random_batch(0, MASK)
    reference = batch.logprobs_BT.detach() - 1.0  # the policy likes these tokens more than the reference does
    pulled = PolicyBatch(
        batch.logprobs_BT,
        batch.logprobs_BT.detach(),
        batch.weights_BT,
        torch.zeros(3, dtype=torch.float64),
        reference_logprobs_BT=reference,
    )
    policy_loss(pulled, LossConfig(kl_weight=1.0))[0].backward()
    assert batch.logprobs_BT.grad is not None
    assert (batch.logprobs_BT.grad[MASK] > 0).all()  # descent lowers them
    with pytest.raises(ValueError, match="reference_logprobs_BT"):
        policy_loss(
            PolicyBatch(
                *[getattr(pulled, n) for n in ("logprobs_BT", "old_logprobs_BT", "weights_BT", "advantages_B")]
            ),
            LossConfig(kl_weight=1.0),
        )


def test_the_overlong_penalty_grows_over_the_buffer() -> None:
    assert [overlong_penalty(tokens, 100, 40) for tokens in (0, 60, 80, 100, 200)] == [0, 0, -0.5, -1, -1]
    assert overlong_penalty(100, 100, 0) == 0


def test_turns_are_compared_with_those_of_their_group_that_saw_the_same() -> None:
    seen = [["a", "b", "a"], ["a", "c"]]
    rewards = [[0.0, 0.5, 0.5], [0.0, 0.0]]
    found = turn_advantages(seen, rewards, discount=0.5, scale=False)
    # Returns: 0 + 0.5 * (0.5 + 0.5 * 0.5) = 0.375, 0.75, 0.5 and 0, 0; "a" was seen by 0.375, 0.5 and 0.
    mean = (0.375 + 0.5 + 0.0) / 3
    assert found[0] == pytest.approx([0.375 - mean, 0.0, 0.5 - mean])
    assert found[1] == pytest.approx([-mean, 0.0])
    scaled = turn_advantages(seen, rewards, discount=0.5)
    spread = math.sqrt(sum((value - mean) ** 2 for value in (0.375, 0.5, 0.0)) / 3)
    assert scaled[0][0] == pytest.approx((0.375 - mean) / spread, rel=1e-4)


def test_what_is_added_to_an_advantage_counts_at_its_token_alone() -> None:
    batch = random_batch(3, MASK)
    offsets = torch.zeros(MASK.shape, dtype=torch.float64)
    offsets[0, 2] = 1.5
    config = LossConfig(importance_cap=None)
    plain, _ = policy_loss(batch, config)
    shifted, _ = policy_loss(replace(batch, turn_advantages_BT=offsets), config)

    def surrogate(advantage: float) -> float:
        ratio = math.exp((batch.logprobs_BT - batch.old_logprobs_BT)[0, 2].item())
        return min(ratio * advantage, min(max(ratio, 1 - config.clip_low), 1 + config.clip_high) * advantage)

    own = batch.advantages_B[0].item()
    moved = batch.weights_BT[0, 2].item() * (surrogate(own) - surrogate(own + 1.5))
    assert (shifted - plain).item() == pytest.approx(moved)
