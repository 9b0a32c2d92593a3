"""Tiny language models from nothing: a tokenizer of the suite's own text, and random weights.

They make everything run in minutes on a laptop: what a policy of this size learns, it learns here.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium

from adaplan_envs.core import TextEnv
from adaplan_envs.errors import ConfigError, OutputError, check_name, require
from adaplan_evaluation.loops import run_sync
from adaplan_evaluation.suite import choose_tasks, resolve_envs
from adaplan_training.demos import DemoConfig, demonstrate

KINDS = ("llama", "qwen2", "qwen3")
SPECIAL = ("<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>")
TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
"""One token in front of each turn and one behind it; a turn looks the same whatever follows."""

CORPUS_TASKS, CORPUS_EPISODES = 400, 20
"""Tasks of each environment of which the tokenizer sees the beginning, and those that it sees played to the end."""
WORD_SHARE = 0.5
"""Share of the vocabulary that is kept for whole words, which byte-pair merges alone would often leave in pieces."""
WINDOW = 32768
"""Rotary positions cost no weights, so that the window can be as long as any episode."""

_SPLIT = r"\n| ?\d{1,3}| ?[^\W\d_]+| ?[^\w\s]|_| +(?= )|\s"
"""Words, numbers of up to three digits and single marks, with the blank in front of them."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a Llama-like model with tied embeddings and as many key-value heads as heads.

    Attributes:
        width: of the hidden states.
        layers: number of blocks.
    """

    width: int
    layers: int

    @property
    def inner(self) -> int:
        """Width of the gated feed-forward part, 8/3 of the model's."""
        return 32 * round(self.width * 8 / 3 / 32)

    @property
    def heads(self) -> int:
        """Return how many heads attend.

        A small model has small ones, so that there are several in a layer: each is a chance that one finds where to
        look things up. How much sooner a model learns by that differs from seed to seed.
        """
        return self.width // (16 if self.width <= 128 else 32)

    def parameters(self, vocabulary: int) -> int:
        """Return about how many weights there are; the few of norms and biases are not counted."""
        return vocabulary * self.width + self.layers * (4 * self.width**2 + 3 * self.width * self.inner)


def choose_shape(parameters: int, vocabulary: int) -> Shape:
    """Return the shape that comes nearest to a number of weights, at about 36 of width for each layer.

    Raises:
        ConfigError: too few for this vocabulary, or too many to be made here.
    """
    shapes = [Shape(width, layers) for width in range(32, 2049, 32) for layers in range(2, 65)]

    def distance(shape: Shape) -> float:
        size, ratio = shape.parameters(vocabulary) / parameters, shape.width / shape.layers / 36
        return abs(math.log(size)) + 0.05 * abs(math.log(ratio))

    best = min(shapes, key=distance)
    if not 0.7 < best.parameters(vocabulary) / parameters < 1.4:
        least, most = (shapes[index].parameters(vocabulary) for index in (0, -1))
        raise ConfigError(f"{parameters:,} parameters: with {vocabulary:,} tokens there can be {least:,} to {most:,}")
    return best


def make_model(
    out: str | Path, parameters: int, *, vocabulary: int = 2048, kind: str = "llama", envs: str = "all", seed: int = 0
) -> Any:
    """Make a tokenizer and a model with random weights, and write them to a folder that ``hf:DIR`` loads.

    Args:
        out: the folder, which must not hold a model yet.
        parameters: about how many weights the model has.
        vocabulary: size of the tokenizer.
        kind: one of `KINDS`.
        envs: whose text the tokenizer is made of: names with commas, or ``all`` that are installed.
        seed: of the weights.

    Returns:
        The model.

    Raises:
        ConfigError: a number out of range, or `out` holds a model.
        UnknownNameError: no such kind or environment.
        MissingExtraError: torch or transformers is not installed.
        OutputError: `out` can't be written.
    """
    out = Path(out)
    check_name("kind of model", kind, KINDS)
    if (out / "config.json").exists():
        raise ConfigError(f"{out} holds a model already; choose another folder")
    shape = choose_shape(parameters, vocabulary)
    tokenizer = train_tokenizer(suite_text(envs), vocabulary)
    model = random_model(kind, shape, tokenizer, seed)
    write_model(out, model, tokenizer)
    return model


def write_model(out: Path, model: Any, tokenizer: Any) -> None:
    """Write both to the folder `out`, which appears when it is complete.

    Raises:
        OutputError: it can't be written, or holds something.
    """
    temporary = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        temporary.mkdir(parents=True)
        model.save_pretrained(temporary)
        tokenizer.save_pretrained(temporary)
        if out.is_dir() and not any(out.iterdir()):
            out.rmdir()
        temporary.rename(out)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise OutputError(f"can't write {out}: {error.strerror}") from error


def random_model(kind: str, shape: Shape, tokenizer: Any, seed: int = 0) -> Any:
    """Return a model of transformers with random weights in float32, the same for the same seed."""
    torch, transformers = require("torch", "train"), require("transformers", "train")
    config = transformers.AutoConfig.for_model(
        kind,
        vocab_size=len(tokenizer),
        hidden_size=shape.width,
        intermediate_size=shape.inner,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        head_dim=shape.width // shape.heads,
        max_position_embeddings=WINDOW,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)


def suite_text(envs: str = "all") -> list[str]:
    """Return the suite's own text: the beginnings of many tasks, and demonstrations: plans, answers, observations.

    Some demonstrations hold slips. Each text is there once. The same in every process.
    """
    texts = []
    for env_id in resolve_envs(envs):
        env = gymnasium.make(env_id)
        base = env.unwrapped
        assert isinstance(base, TextEnv)
        for task_id in choose_tasks(base, "train", CORPUS_TASKS):
            observation, info = env.reset(seed=0, options={"task_id": task_id})
            texts += [base.rules, info["goal"], observation]
        env.close()
    for agent, noise in (("adaplan", 0.2), ("react", 0.0)):
        config = DemoConfig(agent, envs=envs, tasks=CORPUS_EPISODES, noise=noise)
        texts += run_sync(partial(_messages, config))
    return list(dict.fromkeys(texts))


async def _messages(config: DemoConfig) -> list[str]:
    return [message["content"] async for each in demonstrate(config, concurrency=1) for message in each.messages]


def train_tokenizer(texts: Sequence[str], size: int, word_share: float = WORD_SHARE) -> Any:
    """Return a tokenizer of `size` tokens for any text, in which the frequent words of `texts` are one token each.

    Byte-level byte-pair encoding. `word_share` of the vocabulary is whole words, looked up before any merge, so that
    a word costs one entry instead of one for each of its beginnings.

    Raises:
        ConfigError: `size` is too small for the 256 bytes and the special tokens.
    """
    tokenizers, transformers = require("tokenizers", "train"), require("transformers", "train")
    least = 2 * (256 + len(SPECIAL))
    if size < least:
        raise ConfigError(f"a vocabulary of {size} is too small; give {least} or more")
    split = tokenizers.pre_tokenizers.Sequence(
        [
            tokenizers.pre_tokenizers.Split(tokenizers.Regex(_SPLIT), behavior="isolated"),
            tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    words = Counter(word for text in texts for word, _ in split.pre_tokenize_str(text))
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=round(size * (1 - word_share)),
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    draft = tokenizers.Tokenizer(tokenizers.models.BPE())
    draft.pre_tokenizer = split
    draft.train_from_iterator(texts, trainer)
    vocabulary: dict[str, int] = draft.get_vocab()
    merges = [tuple(pair) for pair in json.loads(draft.to_str())["model"]["merges"]]
    for word in sorted((word for word in words if word not in vocabulary), key=lambda word: (-words[word], word)):
        if len(vocabulary) == size:
            break
        vocabulary[word] = len(vocabulary)
    for number in range(size - len(vocabulary)):
        vocabulary[f"<|unused{number}|>"] = len(vocabulary)
    backend = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, merges, ignore_merges=True))
    backend.pre_tokenizer = split
    backend.decoder = tokenizers.decoders.ByteLevel()
    backend.add_special_tokens(list(SPECIAL))
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token="<|end|>",
        pad_token="<|pad|>",
        additional_special_tokens=list(SPECIAL[2:]),
        chat_template=TEMPLATE,
        model_max_length=WINDOW,
        clean_up_tokenization_spaces=False,
    )
