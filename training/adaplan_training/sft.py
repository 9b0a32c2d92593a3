"""Supervised fine-tuning: the likelihood of demonstrated tokens, with the masks and batches of GRPO."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from torch import Tensor

from adaplan_training.config import Stage, TrainConfig
from adaplan_training.losses import imitation_loss, token_weights
from adaplan_training.optimise import Optimiser
from adaplan_training.policy import Policy
from adaplan_training.sequences import Batch, TokenSequence, cut, joint_mask, take_shuffled


class SFT:
    """What a step of SFT needs.

    Args:
        config: of the run.
        policy: what is trained.
        optimiser: of its parameters.
        sequences: the demonstrations, at least one.
    """

    def __init__(
        self, config: TrainConfig, policy: Policy, optimiser: Optimiser, sequences: Sequence[TokenSequence]
    ) -> None:
        self.config, self.policy, self.optimiser = config, policy, optimiser
        self.sequences = sequences

    def steps_of(self, stage: Stage) -> int:
        """Return how many steps `stage` takes."""
        if stage.steps is not None:
            return stage.steps
        assert stage.epochs is not None
        return max(1, math.ceil(stage.epochs * len(self.sequences) / self.config.data.batch))

    def step(self, step: int, lr: float) -> dict[str, float]:
        """Learn from the batch of `step` and return the metrics."""
        began = time.perf_counter()
        count = self.config.data.batch
        chosen = take_shuffled(self.sequences, step * count, count, self.config.seed)
        batches = cut(chosen, self.config.optim.batch_tokens, self.policy.device)
        mask_BT = joint_mask(batches)
        weights_BT = token_weights(mask_BT, self.config.loss.aggregation, max_tokens=self.policy.window)

        def loss_of(batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
            logprobs_BT, entropies_BT = self.policy.logprobs(batch, temperature=1.0)
            part_BT = batch.take_tokens(weights_BT)
            loss, metrics = imitation_loss(logprobs_BT, part_BT)
            return loss, {**metrics, "entropy": (part_BT * entropies_BT).sum()}

        metrics = self.optimiser.update(self.optimiser.world.share(batches), loss_of, lr)
        return {
            **metrics,
            "lr": lr,
            "tokens/trained": int(mask_BT.sum()),
            "tokens/read": sum(map(len, chosen)),
            "time/training": time.perf_counter() - began,
        }

    def close(self) -> None:
        """Do nothing: there is nothing to close."""
