"""The in-process sampler, against plain forward passes of tiny models of several architectures."""

from __future__ import annotations

import asyncio
import logging
import math
import random
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from adaplan_agents.models.drawing import draw_tokens
from adaplan_agents.models.engine import Continuation, Engine
from adaplan_envs.chat import Sampling
from adaplan_envs.errors import ContextOverflowError, ModelError

VOCABULARY = 61
SIZES = {"vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 512}
MODELS: dict[str, dict[str, Any]] = {
    "llama": {**SIZES, **HEADS},
    "qwen2": {**SIZES, **HEADS},
    "qwen3": {**SIZES, **HEADS},
    "gpt2": {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 512},
    "gemma": {**SIZES, **HEADS},
    "gemma2": {**SIZES, **HEADS, "sliding_window": 5, "query_pre_attn_scalar": 8, "attn_implementation": "eager"},
    "gemma3_text": {**SIZES, **HEADS, "sliding_window": 5, "layer_types": ["sliding_attention", "full_attention"]},
    "mistral": {**SIZES, **HEADS, "sliding_window": 5},
}


def tiny(kind: str = "llama") -> Any:
    torch.manual_seed(0)
    settings = dict(MODELS[kind])
    attention = settings.pop("attn_implementation", "sdpa")
    config = AutoConfig.for_model(kind, **settings, bos_token_id=0, eos_token_id=1, pad_token_id=2)
    return AutoModelForCausalLM.from_config(config, attn_implementation=attention).eval()


def never(_: list[int]) -> bool:
    return False


async def talk(engine: Engine, seed: int, turns: int = 3, temperature: float = 1.0) -> tuple[list[int], list[Any]]:
    """A conversation of turns of unequal length; returns its tokens and the continuations."""
    rng = random.Random(seed)
    context = [rng.randrange(3, VOCABULARY) for _ in range(5 + 3 * (seed % 4))]
    row, given = engine.open(), []
    for turn in range(turns):
        sampling = Sampling(temperature=temperature, max_tokens=3 + (seed + turn) % 5)
        answer = await engine.sample(row, context, sampling, rng, stops=never)
        given.append((len(context), answer))
        context += answer.tokens
        context += [rng.randrange(3, VOCABULARY) for _ in range(1 + (seed + turn) % 4)]
        await asyncio.sleep(0)
    engine.close(row)
    return context, given


def check(model: Any, context: list[int], given: list[tuple[int, Continuation]], temperature: float = 1.0) -> None:
    """Every reported log-probability is the one a plain forward pass over the whole conversation gives."""
    with torch.no_grad():
        logprobs = (model(input_ids=torch.tensor([context])).logits[0] / temperature).log_softmax(-1)
    for start, answer in given:
        for offset, (token, logprob) in enumerate(zip(answer.tokens, answer.logprobs, strict=True)):
            assert context[start + offset] == token
            assert logprob == pytest.approx(logprobs[start + offset - 1, token].item(), abs=2e-4)


@pytest.mark.parametrize("kind", MODELS)
async def test_log_probabilities_equal_a_plain_forward_pass(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    model = tiny(kind)
    with caplog.at_level(logging.WARNING):
        engine = Engine(model, window=200)
    assert not caplog.records
    for result in await asyncio.gather(*[talk(engine, seed) for seed in range(9)]):
        check(model, *result)


async def test_an_answer_does_not_depend_on_its_company() -> None:
    model = tiny()
    together = await asyncio.gather(*[talk(Engine(model, window=200), seed) for seed in range(3)])
    engine = Engine(model, window=200)
    crowd = await asyncio.gather(*[talk(engine, seed) for seed in range(12)])
    assert [context for context, _ in together] == [context for context, _ in crowd[:3]]


async def test_every_token_is_read_once_whatever_the_number_of_turns() -> None:
    engine = Engine(tiny(), window=500)
    results = await asyncio.gather(*[talk(engine, seed, turns=20) for seed in range(4)])
    # The tokens after the last answer are never read, nor is the last sampled token.
    read = sum(given[-1][0] + len(given[-1][1].tokens) - 1 for _, given in results)
    assert engine.stats.read == read


async def test_equal_prompts_of_a_group_are_read_once() -> None:
    engine = Engine(tiny(), window=100)
    prompt = list(range(3, 40))

    async def member(seed: int) -> list[int]:
        row = engine.open()
        answer = await engine.sample(
            row, prompt, Sampling(temperature=1, max_tokens=4), random.Random(seed), stops=never
        )
        return answer.tokens

    answers = await asyncio.gather(*[member(seed) for seed in range(8)])
    assert len({tuple(answer) for answer in answers}) > 4
    assert engine.stats.read == len(prompt) + 8 * 3
    assert engine.stats.shared == 7 * len(prompt)


async def test_an_episode_that_ends_makes_room_for_the_others_without_disturbing_them() -> None:
    model = tiny()
    engine = Engine(model, window=300)
    results = await asyncio.gather(*[talk(engine, seed, turns=1 + seed % 5) for seed in range(16)])
    for result in results:
        check(model, *result)
    assert not engine._rows


async def test_a_conversation_that_was_opened_and_not_read_takes_the_place_of_one_that_ends() -> None:
    engine = Engine(tiny(), window=200)
    await asyncio.gather(*[talk(engine, seed) for seed in range(3)])
    first, *others = [engine.open() for _ in range(engine._cache.rows)]
    sampling = Sampling(temperature=1.0, max_tokens=3)
    for row in (first, *others):
        await engine.sample(row, [5, 6, 7], sampling, random.Random(0), stops=never)
    late = engine.open()
    assert late.index == engine._cache.rows
    engine.close(first)
    answer = await engine.sample(late, [8, 9, 10, 11], sampling, random.Random(1), stops=never)
    alone = Engine(tiny(), window=200)
    assert (
        answer.tokens
        == (await alone.sample(alone.open(), [8, 9, 10, 11], sampling, random.Random(1), stops=never)).tokens
    )
    assert sorted(row.index for row in engine._rows) == list(range(len(others) + 1))


async def test_stops_and_limits() -> None:
    engine = Engine(tiny(), window=40)
    row = engine.open()
    answer = await engine.sample(
        row, [3, 4], Sampling(max_tokens=9), random.Random(0), stops=lambda tokens: len(tokens) == 3
    )
    assert (len(answer.tokens), answer.finish) == (3, "stop")
    answer = await engine.sample(row, [3, 4, *answer.tokens, 5], Sampling(max_tokens=2), random.Random(0), stops=never)
    assert (len(answer.tokens), answer.finish) == (2, "length")
    with pytest.raises(ContextOverflowError, match="window of 40"):
        await engine.sample(row, [3] * 36, Sampling(max_tokens=5), random.Random(0), stops=never)
    engine.close(row)
    engine.close(row)
    with pytest.raises(ModelError, match="closed"):
        await engine.sample(row, [3], Sampling(), random.Random(0), stops=never)


async def test_a_change_of_weights_is_seen_at_once_and_never_in_the_middle_of_an_answer() -> None:
    model = tiny()
    engine = Engine(model, window=100)
    row = engine.open()
    context = list(range(3, 20))
    before = await engine.sample(row, context, Sampling(max_tokens=5), random.Random(0), stops=never)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.5)
    engine.forget()
    after = await engine.sample(row, context, Sampling(max_tokens=5), random.Random(0), stops=never)
    fresh = Engine(model, window=100)
    assert after.logprobs == pytest.approx(
        (await fresh.sample(fresh.open(), context, Sampling(max_tokens=5), random.Random(0), stops=never)).logprobs,
        abs=1e-5,
    )
    assert after.logprobs != pytest.approx(before.logprobs, abs=1e-3)
    task = asyncio.create_task(engine.sample(row, context, Sampling(max_tokens=50), random.Random(0), stops=never))
    for _ in range(4):
        await asyncio.sleep(0)
    with pytest.raises(ModelError, match="weights changed"):
        engine.forget()
    await task


async def test_a_cancelled_episode_leaves_the_others_alone() -> None:
    model = tiny()
    engine = Engine(model, window=300)
    tasks = [asyncio.create_task(talk(engine, seed, turns=6)) for seed in range(6)]
    for _ in range(6):
        await asyncio.sleep(0)
    tasks[2].cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(results.pop(2), asyncio.CancelledError)
    for result in results:
        check(model, *result)  # type: ignore[misc]


async def test_a_model_with_another_kind_of_memory_is_read_alone_with_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        "mamba", vocab_size=VOCABULARY, hidden_size=32, state_size=4, num_hidden_layers=2, time_step_rank=4
    )
    model = AutoModelForCausalLM.from_config(config).eval()
    with caplog.at_level(logging.WARNING, logger="adaplan_agents"):
        engine = Engine(model, window=200)
    warnings = [record for record in caplog.records if record.name.startswith("adaplan")]
    assert len(warnings) == 1
    assert "one at a time" in warnings[0].message
    for result in await asyncio.gather(*[talk(engine, seed) for seed in range(3)]):
        check(model, *result)


def test_draws_follow_the_distribution_that_they_report() -> None:
    torch.manual_seed(0)
    logits = torch.randn(1, 6)
    for sampling in (
        Sampling(temperature=0.7),
        Sampling(temperature=1.0, top_k=3),
        Sampling(temperature=1.0, top_p=0.6),
        Sampling(temperature=1.3, top_k=4, top_p=0.8),
    ):
        count = 4000
        uniforms = [(number + 0.5) / count for number in range(count)]
        tokens, logprobs = draw_tokens(logits.expand(count, -1), [sampling] * count, uniforms)
        for token in set(tokens):
            share = tokens.count(token) / count
            assert share == pytest.approx(math.exp(logprobs[tokens.index(token)]), abs=2 / count)
        kept = len(set(tokens))
        assert kept == 6 if sampling.top_k == 0 and sampling.top_p == 1 else kept < 6


def test_greedy_and_sampled_rows_mix() -> None:
    logits = torch.tensor([[0.0, 2.0, 1.0], [0.0, 2.0, 1.0]])
    tokens, logprobs = draw_tokens(logits, [Sampling(), Sampling(temperature=1.0)], [0.999, 0.999])
    assert tokens == [1, 2]
    assert logprobs == pytest.approx(logits[0].log_softmax(-1)[[1, 2]].tolist())
