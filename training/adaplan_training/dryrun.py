"""What a run would do, need and take, before it is begun."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from adaplan_envs.types import StopReason
from adaplan_evaluation.loops import run_sync
from adaplan_training.grpo import GRPO
from adaplan_training.logprobs import CHUNK_ELEMENTS
from adaplan_training.metrics import short
from adaplan_training.sequences import TokenSequence, cut, parse_roles, pass_tokens
from adaplan_training.trainer import Trainer

GIB = 2**30
PATIENCE = 45.0
"""Seconds to measure playing, and then training: a large model on a small machine would take hours for a group."""
ACTIVATIONS = 20
"""Numbers that a layer keeps for its backward pass, for each token and unit of width: attention and a gated MLP."""


def describe_run(trainer: Trainer, patience: float = PATIENCE) -> list[tuple[str, str]]:
    """Return rows of what and how much, the last of them measured: one group of episodes, or a few demonstrations.

    Nothing is written and no weight is changed. Of a group that plays longer than `patience` seconds only the speed is
    known, and the time is that of the longest episodes that there can be.
    """
    config, policy, learner = trainer.config, trainer.policy, trainer.learner
    every = sum(parameter.numel() for parameter in policy.model.parameters())
    trained = sum(parameter.numel() for parameter in policy.parameters())
    rows = [("model", f"{config.model.spec}, {every:,} parameters, {trained:,} trained, on {policy.device}")]
    for stage in config.stages:
        rewards = ", ".join(f"{weight:g} {name}" for name, weight in stage.rewards.items())
        what = f"{learner.steps_of(stage)} steps, trained: {', '.join(stage.roles)}"
        rows.append((f"stage {stage.name}", what + (f", rewards: {rewards}" if config.algorithm == "grpo" else "")))
    sequences: list[TokenSequence]
    if isinstance(learner, GRPO):
        tasks = Counter(short(task.env_id) for task in learner.tasks)
        rows.append(("tasks", ", ".join(f"{count} {name}" for name, count in tasks.items())))
        size = config.rollout.groups * config.rollout.group_size
        rows.append(("step", f"{config.rollout.groups} tasks x {config.rollout.group_size} episodes"))
        rows.append(("tokens of a step", f"at most {size * policy.window:,}"))
        began = time.perf_counter()
        sequences, whole = run_sync(lambda: _play(trainer, learner, patience))
        playing = time.perf_counter() - began
        most = config.rollout.group_size * policy.window
        scale = config.rollout.groups * (1.0 if whole else most / max(1, sum(map(len, sequences))))
    else:
        sequences = list(learner.sequences)
        rows.append(("data", f"{len(sequences):,} sequences, {sum(map(len, sequences)):,} tokens"))
        sequences, playing, whole = sequences[: min(config.data.batch, 8)], 0.0, True
        scale = config.data.batch / len(sequences)
    rows.append(("memory", _memory(trainer)))
    if not sequences:
        rows.append(("measured", f"nothing: no answer in {playing:.0f} s"))
        rows.append(("time", f"unknown for {len(trainer.schedule)} steps"))
        return rows
    playing *= scale
    training = _train(trainer, sequences, patience) * scale
    steps, second = len(trainer.schedule), playing + training
    tokens = sum(map(len, sequences)) * scale
    limit = "about" if whole else "at most"
    measured = f"{limit} {second:,.1f} s and {tokens:,.0f} tokens a step ({playing:,.1f} s of it playing)"
    if not whole:
        measured += f", after {patience:.0f} s, in which the first group did not end"
    rows.append(("measured", measured))
    rows.append(("time", f"{limit} {_duration(steps * second)} for {steps} steps, beside evaluation"))
    return rows


async def _play(trainer: Trainer, learner: GRPO, patience: float) -> tuple[list[TokenSequence], bool]:
    """Return what a group said in the time that there is, and whether all of it could end."""
    stage, collector = trainer.config.stages[0], learner.collector
    config = collector.config
    collector.config = replace(config, deadline=min(patience, config.deadline or patience))
    try:
        groups = await collector.collect(
            trainer.agent(stage), trainer.policy.engine, learner.tasks[:1], parse_roles(stage.roles), "dry run"
        )
    finally:
        collector.config = config
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    ended = all(rollout.episode.stop_reason is not StopReason.DEADLINE for rollout in rollouts)
    return [sequence for rollout in rollouts for sequence in rollout.sequences], ended


def _train(trainer: Trainer, sequences: Sequence[TokenSequence], patience: float) -> float:
    """Return the seconds of forward and backward passes over `sequences`; when time is up, in proportion."""
    policy = trainer.policy
    began, done = time.perf_counter(), 0
    for batch in cut(sequences, trainer.config.optim.batch_tokens, policy.device):
        logprobs_BT: Tensor = policy.logprobs(batch, 1.0)[0]
        logprobs_BT.sum().backward()  # type: ignore[no-untyped-call]
        done += len(logprobs_BT)
        seconds = time.perf_counter() - began
        if seconds > patience:
            break
    for parameter in policy.parameters():
        parameter.grad = None
    return seconds * len(sequences) / done


def _memory(trainer: Trainer) -> str:
    """Return an estimate by parts, in GiB."""
    config, policy = trainer.config, trainer.policy
    settings = policy.model.config.get_text_config()
    parameters = list(policy.model.parameters())
    weights = sum(each.numel() * each.element_size() for each in parameters)
    trained = sum(each.numel() * each.element_size() for each in policy.parameters())
    copies = (config.loss.kl_weight > 0 and not config.model.lora_rank) * weights
    copies += (config.model.sampler == "bfloat16") * 2 * sum(each.numel() for each in parameters)
    layers, width = settings.num_hidden_layers, settings.hidden_size
    heads = getattr(settings, "num_key_value_heads", None) or settings.num_attention_heads
    head = getattr(settings, "head_dim", None) or width // settings.num_attention_heads
    size = 2 if config.model.sampler == "bfloat16" else policy.model.dtype.itemsize
    playing = 0
    if config.algorithm == "grpo":
        episodes = min(config.rollout.concurrency, config.rollout.groups * config.rollout.group_size)
        playing = 2 * layers * heads * head * size * episodes * policy.window
    bytes_each = 4 if config.model.precision == "float32" else 2
    kept = (1 + ACTIVATIONS / layers) if config.model.gradient_checkpointing else ACTIVATIONS
    tokens = max(config.optim.batch_tokens or pass_tokens(policy.device), policy.window)
    training = int(kept * layers * width * bytes_each * tokens) + 3 * 4 * min(
        CHUNK_ELEMENTS, tokens * policy.vocabulary
    )
    parts = {
        "weights": weights + copies,
        "gradients and AdamW": 3 * trained,
        "KV cache at most": playing,
        "activations": training,
    }
    text = ", ".join(f"{name} {amount / GIB:.2f}" for name, amount in parts.items())
    return f"about {sum(parts.values()) / GIB:.1f} GiB: {text}"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:,.1f} hours"
