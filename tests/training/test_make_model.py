"""Tiny models from nothing."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer

from adaplan_agents import Sampling, load_model
from adaplan_envs.errors import ConfigError, UnknownNameError
from adaplan_training import make_model as module
from adaplan_training.commands_data import parse_count
from adaplan_training.make_model import Shape, choose_shape, make_model, random_model, train_tokenizer
from tests.conftest import ROOT

TEXT = ["craft 4 acacia planks using 1 acacia logs", "You are at 12, 5. The goal is at 7, 13."] * 3
STRANGE = "  Ünïcode 日本\t🙂\r\n<|end|> 1234567  a_b-c  "


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return train_tokenizer(TEXT, 600)


def test_any_text_comes_back(tokenizer: Any) -> None:
    for text in (*TEXT, STRANGE, ""):
        ids = tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)
        assert tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False) == text


def test_words_of_the_suite_are_one_token_each(tokenizer: Any) -> None:
    assert [tokenizer.decode([token]) for token in tokenizer.encode(TEXT[0])] == [
        *("craft", " 4", " acacia", " planks", " using", " 1", " acacia", " logs")
    ]
    assert len(tokenizer) == 600


def test_a_vocabulary_without_room_for_all_bytes_is_refused() -> None:
    with pytest.raises(ConfigError, match="give 522 or more"):
        train_tokenizer(TEXT, 300)


@pytest.mark.parametrize("wanted", [300_000, 1_000_000, 3_000_000, 10_000_000, 100_000_000])
def test_the_shape_has_about_as_many_weights_as_asked_for(wanted: int) -> None:
    assert choose_shape(wanted, 2048).parameters(2048) == pytest.approx(wanted, rel=0.1)


def test_three_and_ten_million_are_the_shapes_of_the_benchmarks() -> None:
    assert choose_shape(3_050_000, 2048) == Shape(192, 6)
    assert choose_shape(10_500_000, 2048) == Shape(320, 8)


def test_sizes_that_cannot_be_made_are_refused() -> None:
    with pytest.raises(ConfigError, match="there can be"):
        choose_shape(10_000, 2048)


@pytest.mark.parametrize("kind", module.KINDS)
def test_every_kind_is_tied_has_a_head_for_each_head_of_keys_and_the_counted_size(kind: str, tokenizer: Any) -> None:
    shape = Shape(64, 2)
    model = random_model(kind, shape, tokenizer)
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    assert model.config.num_key_value_heads == model.config.num_attention_heads
    assert model.num_parameters() == pytest.approx(shape.parameters(600), rel=0.02)
    again, other = random_model(kind, shape, tokenizer), random_model(kind, shape, tokenizer, seed=1)
    weight = model.get_input_embeddings().weight
    assert torch.equal(weight, again.get_input_embeddings().weight)
    assert not torch.equal(weight, other.get_input_embeddings().weight)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CORPUS_TASKS", 10)
    monkeypatch.setattr(module, "CORPUS_EPISODES", 2)


async def _answer(folder: Path) -> Any:
    model = load_model(f"hf:{folder}")
    conversation = model.open("Be brief.")
    conversation.user("Go.")
    first = await conversation.sample(Sampling(max_tokens=4, temperature=1, seed=1))
    conversation.user("On.")
    await conversation.sample(Sampling(max_tokens=4, temperature=1, seed=2))
    return model, first, conversation.context


@pytest.mark.usefixtures("small")
def test_the_folder_loads_and_plays(tmp_path: Path) -> None:
    out = tmp_path / "tiny"
    made = make_model(out, 150_000, vocabulary=1024, envs="maze")
    model, _, context = asyncio.run(_answer(out))
    assert torch.equal(made.get_input_embeddings().weight, model.model.get_input_embeddings().weight)
    tokens = model.tokenizer.convert_ids_to_tokens(list(context.ids))
    assert tokens[0] == "<|system|>"
    assert tokens.count("<|user|>") == tokens.count("<|assistant|>") == 2
    rules = " move up, move down, move left, move right"
    loaded = AutoTokenizer.from_pretrained(out)
    assert len(loaded.encode(rules)) == 11
    assert loaded.decode(loaded.encode(rules)) == rules
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tiny"]
    with pytest.raises(ConfigError, match="holds a model already"):
        make_model(out, 150_000, vocabulary=1024, envs="maze")


def test_wrong_names_are_found_out_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="llama"):
        make_model(tmp_path / "x", 150_000, kind="lama")
    with pytest.raises(UnknownNameError, match="maze"):
        make_model(tmp_path / "x", 1_500_000, envs="mazes")
    assert not any(tmp_path.iterdir())


@pytest.mark.slow
def test_the_tokenizer_is_the_same_in_every_process() -> None:
    code = (
        "from adaplan_training import make_model as m; m.CORPUS_TASKS, m.CORPUS_EPISODES = 10, 2;"
        "print(m.train_tokenizer(m.suite_text('maze,textcraft'), 1024).backend_tokenizer.to_str())"
    )
    path = os.pathsep.join(str(ROOT / name) for name in ("", "agents", "evaluation", "training"))

    def made(seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
        return subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        ).stdout

    assert made("1") == made("2")


@pytest.mark.parametrize(("text", "number"), [("3M", 3_000_000), ("10.6m", 10_600_000), ("300k", 300_000), ("7", 7)])
def test_counts_are_read_as_people_write_them(text: str, number: int) -> None:
    assert parse_count(text) == number


@pytest.mark.parametrize("text", ["", "3G", "-1M", "M", "0k", "three"])
def test_other_counts_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="no number of parameters"):
        parse_count(text)
