"""AdamW or Muon, its learning rate, and one update from micro-batches."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from adaplan_envs.errors import TrainingError
from adaplan_training.config import OptimConfig
from adaplan_training.muon import Muon
from adaplan_training.parallel import World
from adaplan_training.sequences import Batch

LossOf = Callable[[Batch], tuple[Tensor, dict[str, Tensor]]]
"""From a micro-batch to its part of the loss and of the metrics; the parts of a mini-batch add up."""


class NonFiniteError(TrainingError):
    """A loss or gradient is NaN or infinite. The weights are as before.

    Attributes:
        batches: what it was computed from.
    """

    def __init__(self, what: str, batches: Sequence[Batch]) -> None:
        super().__init__(f"{what}; the weights are as they were before this update")
        self.batches = list(batches)


def learning_rate(config: OptimConfig, step: int, steps: int) -> float:
    """Return the learning rate of `step` (from 0) of `steps`.

    It rises linearly over the share `warmup` of all steps; then it stays, or falls along half a cosine towards 0.
    """
    warmup = config.warmup * steps
    if step < warmup:
        return config.lr * (step + 1) / (math.ceil(warmup) + 1)
    if config.schedule == "constant":
        return config.lr
    return config.lr * 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1.0, steps - warmup)))


class Optimiser:
    """AdamW, or Muon for the matrices between the layers and AdamW for the rest, with a clipped gradient.

    Args:
        parameters: what is trained.
        config: its settings.
        tables: embeddings and output layer, whose rows are tokens and not directions: Muon is not for them.
        world: the processes that hold the same parameters; all of them make every update.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        config: OptimConfig,
        tables: Iterable[nn.Parameter] = (),
        world: World | None = None,
    ) -> None:
        self.config = config
        self.world = world or World()
        self.parameters = list(parameters)
        apart = set(map(id, tables))
        inner: list[nn.Parameter] = []
        rest: list[nn.Parameter] = []
        for each in self.parameters:
            by_muon = config.name == "muon" and each.ndim == 2 and id(each) not in apart
            (inner if by_muon else rest).append(each)
        groups = [
            {"params": [each for each in rest if each.ndim >= 2], "weight_decay": config.weight_decay},
            {"params": [each for each in rest if each.ndim < 2], "weight_decay": 0.0},
        ]
        groups = [group for group in groups if group["params"]]
        self.parts: list[torch.optim.Optimizer] = []
        """What torch updates with; between them they have every parameter once."""
        if groups:
            self.parts.append(self.world.shared(torch.optim.AdamW, groups, lr=config.lr, betas=config.betas))
        if inner:
            settings = {"lr": config.lr, "weight_decay": config.weight_decay}
            self.parts.append(self.world.shared(Muon, inner, **settings))

    def state_dict(self) -> list[dict[str, Any]]:
        """Return what `load_state_dict` takes; of several processes, the first has it after `collect`."""
        return [part.state_dict() for part in self.parts]

    def collect(self) -> None:
        """Bring what each process knows of its share to the first; all of them have to call this."""
        for part in self.parts:
            self.world.collect(part)

    def load_state_dict(self, state: Sequence[dict[str, Any]]) -> None:
        """Go on from what `state_dict` returned."""
        for part, own in zip(self.parts, state, strict=True):
            part.load_state_dict(own)

    def _forget_gradients(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    def update(self, batches: Sequence[Batch], loss_of: LossOf, lr: float) -> dict[str, float]:
        """Change the weights once, by the sum of the losses of `batches`.

        Args:
            batches: a mini-batch, cut to fit memory; of several processes, this one's share of it.
            loss_of: a batch's part of the loss, and of metrics that add up over batches.
            lr: learning rate.

        Returns:
            The sums of loss and metrics over all processes, and ``grad_norm`` before clipping.

        Raises:
            NonFiniteError: loss or gradient is NaN or infinite.
            TrainingError: out of memory; the message says what needs less.
        """
        for part in self.parts:
            for group in part.param_groups:
                group["lr"] = lr
        self._forget_gradients()
        totals: Counter[str] = Counter()
        for batch in batches:
            try:
                loss, metrics = loss_of(batch)
                value = loss.item()
                if not math.isfinite(value):
                    raise NonFiniteError(f"the loss is {value}", [batch])
                loss.backward()  # type: ignore[no-untyped-call]
            except (torch.OutOfMemoryError, RuntimeError) as error:
                raise explained(error, batch) from error
            totals["loss"] += value  # type: ignore[assignment]
            for name, share in metrics.items():
                totals[name] += share.item()  # type: ignore[assignment]
        self.world.add_gradients(self.parameters)
        norm = nn.utils.clip_grad_norm_(self.parameters, self.config.clip or math.inf).item()
        if not math.isfinite(norm):
            raise NonFiniteError(f"the gradient's norm is {norm}", batches)
        for part in self.parts:
            part.step()
        self._forget_gradients()
        return {**self.world.add(totals), "grad_norm": norm}


def explained(error: Exception, batch: Batch) -> Exception:
    """Return a lack of memory as an error that says what mends it, any other error as it is."""
    text = str(error)
    known = ("can't allocate memory", "not enough memory")  # what the CPU's allocator says, which has no class of error
    if not isinstance(error, torch.OutOfMemoryError) and not any(phrase in text for phrase in known):
        return error
    rows, width = batch.tokens_BT.shape
    reason = text.partition("\n")[0]
    return TrainingError(
        f"out of memory on {rows} sequences of {width} tokens. Lower optim.batch_tokens (one sequence always goes in "
        "whole), or set model.gradient_checkpointing=true, model.precision=mixed, model.lora_rank=16 or a smaller "
        f"agent.episode_tokens ({reason})"
    )
