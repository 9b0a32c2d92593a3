"""Several processes, one run: each plays and reads its share, all take the same steps. ``torchrun`` starts them.

Every process holds the whole model, and a share of what the optimiser remembers. What they exchange are scored episodes
and gradients, so that a run of several makes the decisions of a run of one, and has its numbers up to rounding.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import nn
from torch.optim import Optimizer

T = TypeVar("T")

PATIENCE = timedelta(days=1)
"""How long processes wait for one another: an evaluation is played by the first alone."""


@dataclass(frozen=True, slots=True)
class World:
    """The processes of a run; by default this one alone, which exchanges nothing.

    Attributes:
        rank: number of this process.
        size: how many there are.
    """

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this is the process that evaluates, writes and shows."""
        return self.rank == 0

    def share(self, items: Sequence[T]) -> Sequence[T]:
        """Return this process's part of `items`, every `size`-th."""
        return items[self.rank :: self.size]

    def gather(self, own: Sequence[T]) -> list[T]:
        """Return the items of which each process has the `share` that it passes, in their order, to every process."""
        if self.size == 1:
            return list(own)
        shares: list[Sequence[T]] = [()] * self.size
        dist.all_gather_object(shares, own)
        return [shares[at % self.size][at // self.size] for at in range(sum(map(len, shares)))]

    def tell(self, value: T) -> T:
        """Return the first process's `value` to every process; the others' is ignored."""
        if self.size == 1:
            return value
        told = [value]
        dist.broadcast_object_list(told, src=0)
        return told[0]

    def wait(self) -> None:
        """Wait until every process is here."""
        self.tell(None)

    def add(self, numbers: Mapping[str, float]) -> dict[str, float]:
        """Return the sums over all processes, name by name; what one doesn't name counts there as 0."""
        found = self.gather([numbers])
        names = dict.fromkeys(name for each in found for name in each)
        return {name: sum(each.get(name, 0.0) for each in found) for name in names}

    def add_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Make every parameter's gradient the sum over all processes; none counts as zeros."""
        if self.size == 1:
            return
        sums = []
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            sums.append(dist.all_reduce(parameter.grad, async_op=True))
        for each in sums:
            each.wait()

    def shared(self, kind: type[Optimizer], parameters: Any, **settings: Any) -> Optimizer:
        """Return an optimiser of `kind` that keeps, of what it remembers, in each process a share (ZeRO, stage 1)."""
        if self.size == 1:
            return kind(parameters, **settings)
        from torch.distributed.optim import ZeroRedundancyOptimizer  # its import warns of what it doesn't use here

        return ZeroRedundancyOptimizer(parameters, kind, **settings)

    def collect(self, optimiser: Optimizer) -> None:
        """Bring the shares of what a `shared` optimiser remembers to the first process, whose state is whole then."""
        if self.size > 1:
            optimiser.consolidate_state_dict(to=0)  # type: ignore[attr-defined]


def join() -> World:
    """Return the world that ``torchrun`` started this process in; one of this process alone where it did not.

    With GPUs, each process of a machine takes its own.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        return World()
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    if not dist.is_initialized():
        dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo", timeout=PATIENCE)
    return World(dist.get_rank(), size)


def leave() -> None:
    """Let go of the other processes, at the end of a program."""
    if dist.is_initialized():
        dist.destroy_process_group()
