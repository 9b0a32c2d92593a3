"""The in-process sampler against transformers' `generate`, and what a turn costs as an episode grows.

`python benchmarks/bench_sampling.py` takes turns between both sides, on the same model, prompts and threads, and prints
the medians over the rounds.
"""

from __future__ import annotations

import asyncio
import random
import statistics
from time import perf_counter
from typing import Any

import torch

from adaplan_agents.models.base import Provenance
from adaplan_agents.models.engine import Engine
from adaplan_agents.models.hf import HFModel
from adaplan_agents.session import STOP
from adaplan_envs.chat import Sampling
from adaplan_training.make_model import Shape, random_model, train_tokenizer

VOCABULARY, BATCH, PROMPT, NEW = 2048, 64, 128, 128
TURNS, OBSERVATION, ANSWER = 20, 40, 20
"""About what a turn of MAZE is with the tokenizer of `adaplan make-model`."""
ROUNDS = 3


def never(_: list[int]) -> bool:
    """Let every answer have its full length, as `generate` does."""
    return False


def prompts(count: int, length: int) -> list[list[int]]:
    """Return token ids as good as any text."""
    rng = random.Random(0)
    return [[rng.randrange(300, VOCABULARY) for _ in range(length)] for _ in range(count)]


async def by_engine(engine: Engine, texts: list[list[int]]) -> None:
    """Sample an answer to each."""

    async def one(number: int, text: list[int]) -> None:
        row = engine.open()
        sampling = Sampling(temperature=1.0, max_tokens=NEW)
        await engine.sample(row, text, sampling, random.Random(number), stops=never)
        engine.close(row)

    await asyncio.gather(*[one(number, text) for number, text in enumerate(texts)])


def by_generate(model: Any, texts: list[list[int]]) -> None:
    """Do the same as a user of transformers would."""
    model.generate(
        torch.tensor(texts),
        attention_mask=torch.ones(len(texts), PROMPT, dtype=torch.long),
        do_sample=True,
        top_k=0,
        min_new_tokens=NEW,
        max_new_tokens=NEW,
    )


def throughput(model: Any) -> tuple[float, float]:
    """Return tokens per second of the engine and of `generate`, medians over interleaved rounds."""
    engine, texts = Engine(model, window=4096), prompts(BATCH, PROMPT)
    seconds: dict[str, list[float]] = {"engine": [], "generate": []}
    for _ in range(ROUNDS + 1):
        start = perf_counter()
        asyncio.run(by_engine(engine, texts))
        between = perf_counter()
        by_generate(model, texts)
        seconds["engine"].append(between - start)
        seconds["generate"].append(perf_counter() - between)
    ours, theirs = (BATCH * NEW / statistics.median(values[1:]) for values in seconds.values())
    return ours, theirs


def words() -> list[str]:
    """Return five hundred words, each of which becomes one token."""
    rng = random.Random(0)
    return sorted({"".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=5)) for _ in range(500)})


async def talk(chat: HFModel, number: int, times: list[list[float]]) -> int:
    """Hold one conversation of `TURNS` turns and return how many of its tokens the model had to read."""
    rng = random.Random(number)
    conversation = chat.open("".join(f" {word}" for word in rng.choices(words(), k=PROMPT)))
    for turn in range(TURNS):
        observation = "".join(f" {word}" for word in rng.choices(words(), k=OBSERVATION))
        conversation.user(observation, Provenance.OBSERVATION)
        start = perf_counter()
        sampling = Sampling(temperature=1.0, max_tokens=ANSWER, stop=STOP, seed=turn)
        await conversation.sample(sampling, Provenance.EXECUTOR)
        times[turn].append(perf_counter() - start)
    conversation.close()
    assert conversation.context is not None
    return len(conversation.context) - 1  # nobody has to read the last one


def turns(model: Any, tokenizer: Any, episodes: int) -> tuple[float, float]:
    """Return tokens read over tokens of the episodes, and the time of turn 20 over that of turn 2."""
    chat = HFModel(model, tokenizer, window=4096)
    chat.vocabulary.ends = frozenset()  # answers of full length
    ratios, read = [], 0.0
    for round_ in range(ROUNDS + 1):
        times: list[list[float]] = [[] for _ in range(TURNS)]

        async def all_of_them(times: list[list[float]] = times) -> int:
            return sum(await asyncio.gather(*[talk(chat, number, times) for number in range(episodes)]))

        before = chat.sampler.stats.read + chat.sampler.stats.shared  # type: ignore[attr-defined]
        tokens = asyncio.run(all_of_them())
        after = chat.sampler.stats.read + chat.sampler.stats.shared  # type: ignore[attr-defined]
        read = (after - before) / tokens
        if round_:
            ratios.append(statistics.median(times[-1]) / statistics.median(times[1]))
    return read, statistics.median(ratios)


def run() -> list[dict[str, Any]]:
    """Return the figures."""
    tokenizer = train_tokenizer([f" {word}" for word in words()] * 3, VOCABULARY)
    model = random_model("llama", Shape(192, 6), tokenizer).eval()
    ours, theirs = throughput(model)
    rows = [
        {"name": f"tokens/s, 3M, batch {BATCH}, {PROMPT} + {NEW}", "ours": ours, "baseline": theirs}
        | {"ratio": ours / theirs, "goal": "at least 1.4"}
    ]
    for episodes in (1, 16):
        read, growth = turns(model, tokenizer, episodes)
        what = f"{episodes} conversation{'s at once' if episodes > 1 else ''}, {TURNS} turns"
        rows += [
            {"name": f"tokens read over tokens of the episode, {what}", "ours": read, "baseline": 1.0}
            | {"ratio": read, "goal": "1.0"},
            {"name": f"time of turn {TURNS} over turn 2, {what}", "ours": growth, "baseline": 1.0}
            | {"ratio": growth, "goal": "at most 1.5"},
        ]
    return rows


if __name__ == "__main__":
    for line in run():
        print("{name}: ours {ours:.4g}, baseline {baseline:.4g}, ratio {ratio:.2f} (goal {goal})".format(**line))
