"""Make ``pilot-tiny``, the small policy in the package: demonstrations, a tokenizer, random weights, imitation.

`make train-pilot` runs it, in hours on two cores. What is done is kept; a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import transformers

from adaplan_training.demos import DemoConfig, demonstrate
from adaplan_training.make_model import Shape, random_model, train_tokenizer, write_model
from adaplan_training.progress import live
from adaplan_training.recipe import load_recipe
from adaplan_training.trainer import train
from adaplan_training.transcripts import read_transcripts, write_transcripts

DEMOS: dict[str, dict[str, Any]] = {
    "alfworld": {"repeats": 3, "noise": 0.03},
    "babyai": {"repeats": 3, "noise": 0.1},
    "iqa": {"repeats": 6, "noise": 0.03},
    "maze": {"repeats": 5, "noise": 0.05},
    "textcraft": {"repeats": 25, "noise": 0.05},
    "wordle": {"repeats": 15},
}
"""Of each environment about ten thousand episodes."""
MORE = {"alfworld": 2, "babyai": 2, "iqa": 5, "maze": 4, "textcraft": 12, "wordle": 40}
"""Repeats of each task in the demonstrations of the third part, by another seed."""
SHAPE, VOCABULARY, WORD_SHARE = Shape(width=128, layers=6), 1400, 0.6
READ = 500
"""Episodes of each environment whose text the tokenizer is made of."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/pilot"), help="where it all goes")
    parser.add_argument("--seed", type=int, default=0, help="of the weights and of the order of the data")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="settings of both recipes to replace")
    args = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    args.out.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(min(len(DEMOS), os.cpu_count() or 1)) as pool:
        first, more = (list(pool.map(partial(write_demos, args.out, more), DEMOS)) for more in (False, True))
    if not (args.out / "model").exists():
        make_pilot(args.out / "model", first, args.seed)
    start = args.out / "model"
    for name, files in (("pilot", first), ("pilot-cool", first), ("pilot-more", more)):
        folder = args.out / name
        settings = [f"model.spec=hf:{start}", f"data.files=[{','.join(map(str, files))}]", f"out={folder}"]
        config = load_recipe(f"tiny/{name}", [*settings, f"seed={args.seed}", *args.overrides])
        with live() as on_step:
            train(config, resume=(folder / "config.yaml").exists(), on_step=on_step)
        start = folder / "checkpoints" / "last"
    export(start, args.out / "pilot_tiny")


def demonstrations(env: str, more: bool = False) -> DemoConfig:
    """Return what is imitated in an environment, at first or in the third part."""
    settings = {**DEMOS[env], "repeats": MORE[env], "seed": 1} if more else DEMOS[env]
    return DemoConfig("brief", envs=env, teacher="observer", **settings)


def write_demos(folder: Path, more: bool, env: str) -> Path:
    """Write the demonstrations of an environment, unless they are there, and return where they are."""
    path = (folder / "more" if more else folder) / f"{env}.jsonl"

    async def play() -> None:
        write_transcripts(path, [each async for each in demonstrate(demonstrations(env, more))])

    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        asyncio.run(play())
    return path


def make_pilot(folder: Path, files: Sequence[Path], seed: int) -> None:
    """Make the tokenizer and the model of random weights."""
    texts: dict[str, None] = {}
    for path in files:
        for number, each in enumerate(read_transcripts(path)):
            if number == READ:
                break
            texts |= dict.fromkeys(message["content"] for message in each.messages)
    tokenizer = train_tokenizer(list(texts), VOCABULARY, WORD_SHARE)
    write_model(folder, random_model("llama", SHAPE, tokenizer, seed), tokenizer)


def export(checkpoint: Path, folder: Path) -> None:
    """Write the weights as the package has them, in half precision."""
    model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint, dtype="float16")
    model.save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(checkpoint).save_pretrained(folder)


if __name__ == "__main__":
    main()
