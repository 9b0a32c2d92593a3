"""The policy's log-probabilities, for several architectures, batches and ways to save memory."""

from __future__ import annotations

import asyncio
import copy
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from adaplan_agents.models import load_model
from adaplan_agents.models.hf import HFModel
from adaplan_envs.chat import Sampling
from adaplan_envs.errors import ConfigError
from adaplan_training.config import ModelConfig
from adaplan_training.policy import Policy
from adaplan_training.sequences import TokenSequence, cut, joint_mask
from tests.training.tiny import byte_tokenizer, save_tiny, tiny_model

SIZES = {"vocab_size": 260, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 256}
KINDS: dict[str, dict[str, Any]] = {
    "llama": {**SIZES, **HEADS},
    "qwen3": {**SIZES, **HEADS},
    "gpt2": {"vocab_size": 260, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256},
    "gemma2": {**SIZES, **HEADS, "query_pre_attn_scalar": 8, "final_logit_softcapping": 3.0, "sliding_window": 8},
    "granite": {**SIZES, **HEADS, "logits_scaling": 4.0},
    "cohere": {**SIZES, **HEADS, "logit_scale": 0.25},
}
SPEC = ModelConfig("not loaded")


def random_sequences(count: int = 5, seed: int = 0) -> list[TokenSequence]:
    rng = random.Random(seed)
    lengths = [rng.randrange(4, 40) for _ in range(count)]
    return [
        TokenSequence(
            tuple(rng.randrange(260) for _ in range(length)),
            (*(rng.random() < 0.5 for _ in range(length - 1)), True),
            tuple(-rng.random() for _ in range(length)),
        )
        for length in lengths
    ]


def policy_of(model: Any, config: ModelConfig = SPEC, **options: Any) -> Policy:
    return Policy(HFModel(model, byte_tokenizer(), window=256), config, **options)


def plain_logprobs(model: Any, sequence: TokenSequence, temperature: float) -> list[float]:
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([sequence.ids])).logits[0] / temperature
    every = logits.log_softmax(-1)[:-1].gather(1, torch.tensor(sequence.ids)[1:, None])[:, 0]
    return [value for value, trained in zip(every.tolist(), sequence.trained[1:], strict=True) if trained]


@pytest.mark.parametrize("kind", KINDS)
def test_log_probabilities_are_the_model_s_own_whatever_is_behind_its_head(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **KINDS[kind], bos_token_id=0, eos_token_id=0, pad_token_id=0)
    policy = policy_of(AutoModelForCausalLM.from_config(config))
    assert not caplog.records  # the head was taken apart, nothing fell back
    sequences = random_sequences()
    for batch in cut(sequences, 70):
        logprobs, _ = policy.logprobs(batch, 0.7)
        for row, values, mask in zip(batch.rows, logprobs, batch.mask_BT, strict=True):
            wanted = plain_logprobs(policy.model.eval(), sequences[row], 0.7)
            assert values[mask].tolist() == pytest.approx(wanted, abs=2e-5)


def test_a_head_that_does_something_unknown_falls_back_to_all_logits(caplog: pytest.LogCaptureFixture) -> None:
    model = tiny_model()
    forward = model.forward

    def odd(*args: Any, **kwargs: Any) -> Any:
        output = forward(*args, **kwargs)
        output.logits = output.logits.abs()
        return output

    model.forward = odd
    policy = policy_of(model)
    assert "all logits are kept" in caplog.text
    sequence = random_sequences(1)[0]
    (batch,) = cut([sequence], 1000)
    got = policy.logprobs(batch, 1.0)[0][batch.mask_BT].tolist()
    assert got == pytest.approx(plain_logprobs(model, sequence, 1.0), abs=1e-5)


def test_the_sampler_reports_what_the_trainer_computes() -> None:
    policy = policy_of(tiny_model())
    engine = policy.engine
    prompt = list(range(10, 30))
    sampling = Sampling(temperature=0.8, max_tokens=12)
    answer = asyncio.run(engine.sample(engine.open(), prompt, sampling, random.Random(0), stops=lambda _: False))
    ids, count = (*prompt, *answer.tokens), len(answer.tokens)
    sequence = TokenSequence(ids, (False,) * 20 + (True,) * count, (0.0,) * 20 + tuple(answer.logprobs))
    (batch,) = cut([sequence], 1000)
    got = policy.logprobs(batch, 0.8)[0][batch.mask_BT].tolist()
    assert got == pytest.approx(answer.logprobs, abs=5e-5)


def gradient(policy: Policy, tokens: int) -> list[torch.Tensor]:
    policy.model.zero_grad()
    for batch in cut(random_sequences(), tokens):
        policy.logprobs(batch, 1.0)[0].sum().backward()  # type: ignore[no-untyped-call]
    return [parameter.grad for parameter in policy.parameters() if parameter.grad is not None]


def test_gradients_do_not_depend_on_the_cut_nor_on_checkpointing() -> None:
    wanted = gradient(policy_of(tiny_model()), 10_000)
    checkpointed = policy_of(tiny_model(), ModelConfig("x", gradient_checkpointing=True))
    assert any(getattr(module, "gradient_checkpointing", False) for module in checkpointed.model.modules())
    for other in (gradient(policy_of(tiny_model()), 1), gradient(checkpointed, 60)):
        assert len(other) == len(wanted)
        for one, two in zip(wanted, other, strict=True):
            torch.testing.assert_close(one, two, atol=2e-4, rtol=1e-3)


@pytest.mark.slow  # half a minute of compiling
def test_a_compiled_policy_computes_the_same() -> None:
    torch.manual_seed(0)
    model = tiny_model()
    found = []
    for compiled in (False, True):
        policy = policy_of(copy.deepcopy(model), ModelConfig("not loaded", compile=compiled))
        for batch in cut(random_sequences(), 70):  # of several shapes
            logprobs, _ = policy.logprobs(batch, 1.0)
            logprobs.sum().backward()
        found.append([parameter.grad for parameter in policy.parameters()])
    assert all(torch.allclose(one, two, atol=1e-4) for one, two in zip(*found, strict=True))


def test_dropout_is_off_while_training() -> None:
    config = AutoConfig.for_model("gpt2", **KINDS["gpt2"], attn_pdrop=0.5, resid_pdrop=0.5, embd_pdrop=0.5)
    policy = policy_of(AutoModelForCausalLM.from_config(config))
    (batch,) = cut(random_sequences(1), 1000)
    assert torch.equal(policy.logprobs(batch, 1.0)[0], policy.logprobs(batch, 1.0)[0])


def test_the_bfloat16_sampler_follows_the_weights() -> None:
    policy = policy_of(tiny_model(), ModelConfig("x", sampler="bfloat16"))
    twin = policy.engine.model
    assert twin is not policy.model
    assert twin.dtype == torch.bfloat16
    assert policy.model.dtype == torch.float32
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(1.0)
    policy.sync()
    for one, two in zip(policy.model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(one.to(torch.bfloat16), two)


@pytest.mark.parametrize("rank", [0, 4])
def test_the_reference_stays_as_it_was(rank: int) -> None:
    policy = policy_of(tiny_model(), ModelConfig("x", lora_rank=rank), reference=True)
    (batch,) = cut(random_sequences(1), 1000)
    before = policy.logprobs(batch, 1.0)[0].detach()
    torch.testing.assert_close(policy.reference_logprobs(batch, 1.0), before)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.05)
    torch.testing.assert_close(policy.reference_logprobs(batch, 1.0), before)
    assert not torch.allclose(policy.logprobs(batch, 1.0)[0], before)


@pytest.mark.parametrize("rank", [0, 4])
def test_what_is_saved_is_loaded_by_its_path_and_by_a_resumed_run(rank: int, tmp_path: Path) -> None:
    spec = save_tiny(tmp_path / "model")
    config = ModelConfig(spec, lora_rank=rank, device="cpu")
    policy = Policy.load(config)
    if rank:
        assert sum(parameter.numel() for parameter in policy.parameters()) < 20_000
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(torch.rand(parameter.shape, generator=torch.Generator().manual_seed(0)))
    policy.save(tmp_path / "saved")
    (batch,) = cut(random_sequences(1), 1000)
    wanted = policy.logprobs(batch, 1.0)[0].detach()
    again = Policy.load(config)
    again.restore(tmp_path / "saved")
    assert torch.equal(again.logprobs(batch, 1.0)[0], wanted)
    by_path = load_model(f"hf:{tmp_path / 'saved'}", device="cpu")
    assert isinstance(by_path, HFModel)
    torch.testing.assert_close(Policy(by_path, SPEC).logprobs(batch, 1.0)[0], wanted)


def test_a_model_that_is_not_in_this_process_can_t_be_trained() -> None:
    with pytest.raises(ConfigError):
        Policy.load(ModelConfig("scripted:x:y"))


def test_batches_hold_every_sequence_once_within_the_budget() -> None:
    sequences = random_sequences(20)
    batches = cut(sequences, 64)
    assert sorted(row for batch in batches for row in batch.rows) == list(range(20))
    assert all(batch.tokens_BT.numel() <= 64 or len(batch.rows) == 1 for batch in batches)
    assert int(joint_mask(batches).sum()) == sum(sum(sequence.trained[1:]) for sequence in sequences)
    for batch in batches:
        assert batch.sampler_logprobs_BT is not None
        for row, ids, mask, logprobs in zip(
            batch.rows, batch.tokens_BT, batch.mask_BT, batch.sampler_logprobs_BT, strict=True
        ):
            length = len(sequences[row])
            assert tuple(ids[:length].tolist()) == sequences[row].ids
            assert not mask[length:].any()
            assert logprobs[:length].tolist() == pytest.approx(list(sequences[row].logprobs or ()))


@pytest.mark.parametrize(("device", "rows"), [("cpu", [4, 4, 2]), ("meta", [10])])
def test_without_a_budget_a_cpu_gets_smaller_passes_than_other_devices(device: str, rows: list[int]) -> None:
    sequences = [TokenSequence((1,) * 500, (True,) * 500)] * 10
    assert [len(batch.rows) for batch in cut(sequences, None, device)] == rows
