"""Chunked log-probabilities equal the plain ones, in value and gradient."""

from __future__ import annotations

import pytest
import torch

from adaplan_training import logprobs
from adaplan_training.logprobs import token_logprobs


def test_they_are_in_float32_under_autocast() -> None:
    hidden, head = torch.randn(1, 4, 16), torch.nn.Linear(16, 50)
    tokens, mask = torch.randint(50, (1, 4)), torch.ones(1, 4, dtype=torch.bool)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got, entropy = token_logprobs(hidden, head, tokens, mask, vocabulary=50)
        logits = head(hidden).float()[:, :-1]
    full = logits.log_softmax(-1)
    torch.testing.assert_close(got[:, 1:], full.gather(2, tokens[:, 1:, None])[..., 0])
    torch.testing.assert_close(entropy[:, 1:], -(full.exp() * full).sum(-1))


@pytest.mark.parametrize(("temperature", "chunk"), [(1.0, 3), (0.7, 3), (0.7, 100)])
def test_they_equal_a_plain_log_softmax(monkeypatch: pytest.MonkeyPatch, temperature: float, chunk: int) -> None:
    monkeypatch.setattr(logprobs, "CHUNK_ELEMENTS", 50 * chunk)  # of three tokens, or one of them all
    torch.manual_seed(0)
    hidden = torch.randn(3, 8, 16, requires_grad=True)
    head = torch.nn.Linear(16, 50)
    tokens = torch.randint(50, (3, 8))
    mask = torch.rand(3, 8) < 0.6
    pull = torch.randn(3, 8)

    got, entropy = token_logprobs(hidden, head, tokens, mask, temperature=temperature, vocabulary=50)
    (got * pull).sum().backward()
    gradients = [hidden.grad.clone(), head.weight.grad.clone(), head.bias.grad.clone()]  # type: ignore[union-attr]

    hidden.grad = head.weight.grad = head.bias.grad = None
    full = (head(hidden) / temperature).log_softmax(-1)
    wanted = torch.zeros(3, 8)
    wanted[:, 1:] = full[:, :-1].gather(2, tokens[:, 1:, None])[:, :, 0]
    mask[:, 0] = False
    wanted = wanted * mask
    torch.testing.assert_close(got, wanted)
    (wanted * pull).sum().backward()
    for one, other in zip(gradients, [hidden.grad, head.weight.grad, head.bias.grad], strict=True):
        torch.testing.assert_close(one, other)
    plain_entropy = torch.zeros(3, 8)
    plain_entropy[:, 1:] = -(full.exp() * full).sum(-1)[:, :-1]
    torch.testing.assert_close(entropy, (plain_entropy * mask).detach())
    assert not entropy.requires_grad


def test_with_nothing_wanted_they_are_zero_and_a_backward_pass_still_works() -> None:
    hidden = torch.randn(2, 3, 4, requires_grad=True)
    mask = torch.zeros(2, 3, dtype=torch.bool)
    got, entropy = token_logprobs(
        hidden, torch.nn.Linear(4, 5), torch.zeros(2, 3, dtype=torch.long), mask, vocabulary=5
    )
    got.sum().backward()
    assert got.abs().sum() == entropy.abs().sum() == 0


def test_without_gradients_the_values_are_the_same() -> None:
    torch.manual_seed(0)
    hidden, head, tokens = torch.randn(2, 5, 4), torch.nn.Linear(4, 9), torch.randint(9, (2, 5))
    mask = torch.ones(2, 5, dtype=torch.bool)
    with torch.no_grad():
        silent, _ = token_logprobs(hidden, head, tokens, mask, vocabulary=9)
    loud, _ = token_logprobs(hidden, head, tokens, mask, vocabulary=9)
    assert torch.equal(silent, loud.detach())
