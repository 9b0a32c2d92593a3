"""Muon: momentum whose matrices are made orthogonal before they are added to the weights.

K. Jordan et al., "Muon: an optimizer for hidden layers in neural networks" (2024); the learning rate is scaled as in
"Muon is scalable for LLM training" (arXiv 2502.16982), so that it means about what it means to AdamW.

`torch.optim.Muon` computes the same, a matrix at a time and always in bfloat16, which most CPUs only emulate: for a
model of 200,000 weights that is half of a training step. Here all matrices of a shape go together, on a CPU in their
own precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

MOMENTUM = 0.95
_STEPS = 5
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the quintic iteration: steepest at 0, so that five steps bring every singular value near 1, if not quite to it."""


class Muon(torch.optim.Optimizer):
    """Muon with Nesterov momentum and decoupled weight decay.

    Args:
        parameters: matrices.
        lr: learning rate; the step of an [A, B] matrix is ``0.2 * sqrt(max(A, B))`` times that.
        weight_decay: share of `lr` by which the weights shrink.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float, weight_decay: float = 0.0) -> None:
        super().__init__(parameters, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """Change the weights by their gradients."""
        for group in self.param_groups:
            by_shape: dict[tuple[torch.Size, torch.device], list[nn.Parameter]] = {}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    by_shape.setdefault((parameter.shape, parameter.device), []).append(parameter)
            for (shape, _), parameters in by_shape.items():
                updates_NAB = orthogonal(torch.stack([self._direction(each) for each in parameters]))
                scale = -group["lr"] * 0.2 * math.sqrt(max(shape))
                for parameter, update_AB in zip(parameters, updates_NAB, strict=True):
                    parameter.mul_(1 - group["lr"] * group["weight_decay"]).add_(update_AB, alpha=scale)

    def _direction(self, parameter: nn.Parameter) -> Tensor:
        """Return the gradient, ahead of the momentum that it is added to."""
        assert parameter.grad is not None
        state = self.state[parameter]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(parameter)
        momentum: Tensor = state["momentum"]
        momentum.lerp_(parameter.grad, 1 - MOMENTUM)
        return parameter.grad.lerp(momentum, MOMENTUM)


def orthogonal(matrices_NAB: Tensor) -> Tensor:
    """Return matrices of the same singular vectors, whose singular values are all near 1, between about 0.7 and 1.2."""
    wide = matrices_NAB.shape[1] <= matrices_NAB.shape[2]
    X_NAB = matrices_NAB if wide else matrices_NAB.mT
    if X_NAB.is_cuda:
        X_NAB = X_NAB.bfloat16()
    X_NAB = X_NAB / X_NAB.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    a, b, c = _COEFFICIENTS
    for _ in range(_STEPS):
        gram_NAA = X_NAB @ X_NAB.mT
        X_NAB = torch.baddbmm(X_NAB, torch.baddbmm(gram_NAA, gram_NAA, gram_NAA, beta=b, alpha=c), X_NAB, beta=a)
    return (X_NAB if wide else X_NAB.mT).to(matrices_NAB.dtype)
