"""One step of GRPO against TRL's trainer, and the memory of one update against plain logits.

`python benchmarks/bench_training.py` needs the extra `bench`. Both sides train the same 3M model on 8 prompts of 128
tokens with 8 completions of 128 tokens each, one optimiser step, no reference model, and take turns in one process. Two
pairs: both in float32 as they come; and each with its best settings: compiled, where that is faster, or with a static
cache and gradients accumulated over small passes, where that is faster, in bfloat16 on both sides where the processor
computes in it, and glibc's allocator told to keep its memory. Memory is the peak of a process of its own. Plain logits
of the whole batch fit into no laptop: what they take more than chunks is measured on one of the eight sequences and
counted eight times.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import pairwise
from time import perf_counter
from typing import Any

import torch

from adaplan_agents.models.hf import HFModel
from adaplan_envs.chat import Sampling
from adaplan_training.config import ModelConfig, OptimConfig
from adaplan_training.logprobs import token_logprobs
from adaplan_training.losses import LossConfig, PolicyBatch, group_advantages, policy_loss, token_weights
from adaplan_training.make_model import Shape, random_model, train_tokenizer
from adaplan_training.optimise import Optimiser
from adaplan_training.policy import Policy
from adaplan_training.sequences import Batch, TokenSequence, cut, joint_mask

VOCABULARY, PROMPTS, GROUP, PROMPT, NEW = 2048, 8, 8, 128, 128
ROUNDS, STEPS = 3, 3
LR = 1e-4
KEEP_MEMORY = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**34),
    "MALLOC_TOP_PAD_": str(2**28),
}
HALF: bool = torch.ops.mkldnn._is_mkldnn_bf16_supported()
"""Whether bfloat16 is anything but slower here: a processor without it emulates it."""
LARGE_VOCABULARY, ROWS, LENGTH = 150_000, 8, 2048


def words() -> list[str]:
    """Return five hundred words, each of which becomes one token."""
    rng = random.Random(0)
    return sorted({"".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=5)) for _ in range(500)})


def texts() -> list[str]:
    """Return prompts of exactly `PROMPT` tokens."""
    rng = random.Random(1)
    return ["".join(f" {word}" for word in rng.choices(words(), k=PROMPT)) for _ in range(PROMPTS)]


def reward(ids: list[int]) -> float:
    """Return something to learn: the share of even token ids."""
    return sum(token % 2 == 0 for token in ids) / len(ids)


class Ours:
    """Steps of this project's trainer."""

    def __init__(self, model: Any, tokenizer: Any, **settings: Any) -> None:
        self.policy = Policy(HFModel(model, tokenizer, window=4096), ModelConfig("bench", **settings))
        self.optimiser = Optimiser(self.policy.parameters(), OptimConfig(lr=LR))
        self.prompts = [tokenizer.encode(text) for text in texts()]
        self.loss = LossConfig()
        self.number = 0

    async def _sample(self, prompt: list[int], seed: int) -> TokenSequence:
        engine = self.policy.engine
        row = engine.open()
        sampling = Sampling(temperature=1.0, max_tokens=NEW)
        found = await engine.sample(row, prompt, sampling, random.Random(seed), stops=lambda tokens: False)
        engine.close(row)
        trained = (False,) * len(prompt) + (True,) * NEW
        return TokenSequence((*prompt, *found.tokens), trained, (*[0.0] * len(prompt), *found.logprobs))

    async def _rollouts(self) -> list[TokenSequence]:
        self.number += 1
        jobs = [(prompt, self.number * 10_000 + member) for prompt in self.prompts for member in range(GROUP)]
        return await asyncio.gather(*[self._sample(prompt, seed + at) for at, (prompt, seed) in enumerate(jobs)])

    def step(self) -> None:
        """Sample, reward, update."""
        sequences = asyncio.run(self._rollouts())
        rewards = torch.tensor([reward(list(sequence.ids[PROMPT:])) for sequence in sequences])
        advantages_B = torch.cat([group_advantages(group)[0] for group in rewards.split(GROUP)])
        batches = cut(sequences, None)
        weights_BT = token_weights(joint_mask(batches), self.loss.aggregation)

        def loss_of(batch: Batch) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
            logprobs_BT, _ = self.policy.logprobs(batch, 1.0)
            return policy_loss(
                PolicyBatch(
                    logprobs_BT,
                    logprobs_BT.detach(),
                    batch.take_tokens(weights_BT),
                    batch.take(advantages_B),
                    batch.sampler_logprobs_BT,
                ),
                self.loss,
            )

        self.optimiser.update(batches, loss_of, LR)
        self.policy.sync()


def trl_seconds(model: Any, tokenizer: Any, best: bool, passes: int) -> list[float]:
    """Return the seconds of TRL's steps but the first, each a batch in so many passes."""
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    ends: list[float] = []

    class Clock(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            ends.append(perf_counter())

    with tempfile.TemporaryDirectory() as folder:
        config = GRPOConfig(
            output_dir=folder,
            per_device_train_batch_size=PROMPTS * GROUP // passes,
            gradient_accumulation_steps=passes,
            num_generations=GROUP,
            max_completion_length=NEW,
            generation_kwargs={"min_new_tokens": NEW},
            cache_implementation="static" if best else None,
            max_steps=STEPS,
            learning_rate=LR,
            lr_scheduler_type="constant",
            temperature=1.0,
            top_k=0,
            beta=0.0,
            gradient_checkpointing=False,
            bf16=False,
            use_cpu=True,
            save_strategy="no",
            logging_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        trainer = GRPOTrainer(
            model=model.to(torch.bfloat16) if best and HALF else model,
            reward_funcs=lambda completion_ids, **_: [reward(ids) for ids in completion_ids],
            args=config,
            train_dataset=Dataset.from_dict({"prompt": texts() * STEPS}),
            processing_class=tokenizer,
            callbacks=[Clock()],
        )
        trainer.train()
    return [later - earlier for earlier, later in pairwise(ends)]


def seconds(step: Callable[[], None]) -> float:
    """Return how long a step takes."""
    start = perf_counter()
    step()
    return perf_counter() - start


def pair(best: bool) -> tuple[float, float]:
    """Return seconds per step of ours and of TRL, medians over interleaved rounds."""
    tokenizer = train_tokenizer([f" {word}" for word in words()] * 3, VOCABULARY)
    assert all(len(tokenizer.encode(text)) == PROMPT for text in texts())

    def model() -> Any:
        return random_model("llama", Shape(192, 6), tokenizer)

    half = {"precision": "mixed", "sampler": "bfloat16"} if best and HALF else {}
    sides = [Ours(model(), tokenizer, compile=compiled, **half) for compiled in ((False, True) if best else (False,))]
    for side in sides:  # compiles, and grows the cache
        side.step()
    ours = min(sides, key=lambda side: seconds(side.step))
    mine: list[float] = []
    theirs: dict[int, list[float]] = {passes: [] for passes in ((1, 8) if best else (1,))}
    for _ in range(ROUNDS):
        for passes, found in theirs.items():
            found += trl_seconds(model(), tokenizer, best, passes)
        mine += [seconds(ours.step) for _ in range(STEPS - 1)]
    return statistics.median(mine), min(map(statistics.median, theirs.values()))


def update(rows: int, plain: bool) -> dict[str, Any]:
    """Make one update at a large vocabulary; return its peak memory in MiB, its loss and part of its gradient."""
    tokenizer = train_tokenizer(["one"], VOCABULARY)
    tokenizer.add_tokens([f"token{number}" for number in range(LARGE_VOCABULARY - VOCABULARY)])
    model = random_model("llama", Shape(192, 6), tokenizer)
    generator = torch.Generator().manual_seed(0)
    tokens_BT = torch.randint(LARGE_VOCABULARY, (ROWS, LENGTH), generator=generator)[:rows]
    mask_BT = torch.ones(tokens_BT.shape, dtype=torch.bool)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if plain:
        logits_BTV = model(input_ids=tokens_BT, use_cache=False).logits[:, :-1]
        logprobs_BT = logits_BTV.log_softmax(-1).gather(2, tokens_BT[:, 1:, None])[..., 0]
        loss = -logprobs_BT.mean()
    else:
        hidden_BTD = model.base_model(input_ids=tokens_BT, use_cache=False).last_hidden_state
        head = model.get_output_embeddings()
        logprobs_BT, _ = token_logprobs(hidden_BTD, head, tokens_BT, mask_BT, vocabulary=LARGE_VOCABULARY)
        loss = -logprobs_BT[:, 1:].mean()
    loss.backward()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    norms = [float(parameter.grad.norm()) for parameter in model.parameters()]
    return {"mib": peak / 1024, "loss": float(loss), "norms": norms}


def apart(what: str, **environment: str) -> Any:
    """Return what `what` (see `PARTS`) gives in a process of its own."""
    command = [sys.executable, __file__, what]
    done = subprocess.run(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


PARTS: dict[str, Callable[[], Any]] = {
    "float32": lambda: pair(best=False),
    "best": lambda: pair(best=True),
    "chunks": lambda: update(ROWS, plain=False),
    "chunks of one": lambda: update(1, plain=False),
    "plain of one": lambda: update(1, plain=True),
}


def run() -> Iterator[dict[str, Any]]:
    """Yield the figures."""
    for what, goal, environment in (("float32", 0.5, {}), ("best", 0.6, KEEP_MEMORY)):
        ours, theirs = apart(what, **environment)
        name = f"seconds a step, 3M, {PROMPTS} x {GROUP} x ({PROMPT} + {NEW}), {what}"
        yield {"name": name, "ours": ours, "baseline": theirs, "ratio": ours / theirs, "goal": goal}
    whole, one, plain = apart("chunks"), apart("chunks of one"), apart("plain of one")
    gap = max(
        abs(mine - other) / max(1e-12, abs(other))
        for mine, other in zip([one["loss"], *one["norms"]], [plain["loss"], *plain["norms"]], strict=True)
    )
    ours, theirs = whole["mib"], whole["mib"] + ROWS * (plain["mib"] - one["mib"])
    name = f"MiB of an update, {ROWS} x {LENGTH} tokens of {LARGE_VOCABULARY:,}"
    yield {"name": name, "ours": ours, "baseline": theirs, "ratio": ours / theirs, "goal": 0.33}
    name = "largest relative difference of loss and gradient norms"
    yield {"name": name, "ours": gap, "baseline": 1e-5, "ratio": gap / 1e-5, "goal": 1.0}


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(PARTS[sys.argv[1]]()))
    else:
        for line in run():
            print(
                "{name}: ours {ours:.4g}, baseline {baseline:.4g}, ratio {ratio:.2f} (goal at most {goal})".format(
                    **line
                ),
                flush=True,
            )
