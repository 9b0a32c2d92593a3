"""`pilot-tiny`: the first steps of its training, taken once more."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from adaplan_training import demos
from adaplan_training.demos import DemoConfig
from adaplan_training.recipe import load_recipe
from adaplan_training.transcripts import Transcript, write_transcripts
from tests.conftest import load_script

torch = pytest.importorskip("torch")
pytest.importorskip("alfworld")
pytest.importorskip("minigrid")

FIRST_STEPS = json.loads((Path(__file__).parent / "pilot_first_steps.json").read_text())
"""Of the run that made the policy: the loss of each step, and the episodes that it learned from, in order."""


def demonstrated(config: DemoConfig, episodes: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the demonstrations of a few of the thousands of episodes that `config` means."""

    async def run() -> list[Transcript]:
        return [each async for each in demos.demonstrate(config)]

    monkeypatch.setattr(demos, "_jobs", lambda pool, config: episodes)
    return asyncio.run(run())


def test_the_first_steps_of_its_training_have_the_same_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import transformers

    from adaplan_agents.models.pilot import WEIGHTS
    from adaplan_training import sft
    from adaplan_training.make_model import random_model, write_model
    from adaplan_training.optimise import Optimiser, learning_rate
    from adaplan_training.policy import Policy
    from adaplan_training.sft_data import load_sequences

    script = load_script("train_pilot")
    wanted = [tuple(episode) for step in FIRST_STEPS for episode in step["episodes"]]
    found: dict[tuple[Any, ...], Transcript] = {}
    for env_id in sorted({episode[0] for episode in wanted}):
        config = script.demonstrations(env_id.removeprefix("AdaPlan/").removesuffix("-v0").lower())
        for each in demonstrated(config, [episode for episode in wanted if episode[0] == env_id], monkeypatch):
            found[tuple(each.about[key] for key in ("env_id", "task_id", "repeat"))] = each
    write_transcripts(tmp_path / "demos.jsonl", [found[episode] for episode in wanted])
    tokenizer = transformers.AutoTokenizer.from_pretrained(WEIGHTS)
    write_model(tmp_path / "model", random_model("llama", script.SHAPE, tokenizer), tokenizer)

    config = load_recipe("tiny/pilot", [f"model.spec=hf:{tmp_path / 'model'}", "model.device=cpu"])
    policy = Policy.load(config.model, window=config.agent.episode_tokens)
    sequences = load_sequences([tmp_path / "demos.jsonl"], policy.chat, config.stages[0].roles)
    # The run drew these out of all its demonstrations; here there are no others.
    monkeypatch.setattr(sft, "take_shuffled", lambda items, start, count, *seed: items[start : start + count])
    learner = sft.SFT(config, policy, Optimiser(policy.parameters(), config.optim, policy.tables), sequences)
    steps = learner.steps_of(config.stages[0])
    for step, recorded in enumerate(FIRST_STEPS):
        metrics = learner.step(step, learning_rate(config.optim, step, steps))
        assert metrics["loss"] == pytest.approx(recorded["loss"], rel=1e-4)
