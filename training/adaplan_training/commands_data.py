"""`adaplan make-model` and `adaplan demos`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from adaplan_envs.cli import Command
from adaplan_envs.errors import ConfigError

if TYPE_CHECKING:
    from adaplan_evaluation.types import Episode

_UNITS = {"": 1, "k": 10**3, "m": 10**6}


def parse_count(text: str) -> int:
    """Return the number that ``3M``, ``10.6m``, ``300k`` or ``3000000`` means.

    Raises:
        ConfigError: it means none.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([km]?)", text.strip().lower())
    if match is None or not float(match[1]):
        raise ConfigError(f"{text!r} is no number of parameters; write it as 3M, 300k or 3000000")
    return round(float(match[1]) * _UNITS[match[2]])


def parse_tasks(text: str) -> tuple[str, int | None]:
    """Return split and number of ``train:500``; a split alone means all of it.

    Raises:
        ConfigError: it has no such form.
    """
    split, colon, number = text.partition(":")
    if colon and not (number.isascii() and number.isdigit()):
        raise ConfigError(f"--tasks {text!r}: write SPLIT or SPLIT:NUMBER, such as train:500")
    return split, int(number) if colon else None


def _configure_make_model(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--params", default="3M", metavar="N", help="about how many weights, such as 3M or 300k (default: 3M)")
    add("--out", type=Path, required=True, metavar="DIR", help="the folder; load the model with hf:DIR")
    add("--vocab", type=int, default=2048, metavar="N", help="size of the tokenizer (default: 2048)")
    add("--kind", default="llama", help="architecture: llama, qwen2 or qwen3 (default: llama)")
    add("--envs", default="all", help="whose text the tokenizer is made of (default: all that are installed)")
    add("--seed", type=int, default=0, help="of the weights (default: 0)")


def _run_make_model(args: argparse.Namespace) -> int:
    from rich.console import Console

    from adaplan_envs.errors import require
    from adaplan_training.make_model import make_model

    parameters, console = parse_count(args.params), Console()
    require("transformers", "train").logging.disable_progress_bar()
    with console.status("reading the suite's text"):
        model = make_model(args.out, parameters, vocabulary=args.vocab, kind=args.kind, envs=args.envs, seed=args.seed)
    config = model.config
    console.print(
        f"{model.num_parameters():,} parameters: {config.num_hidden_layers} layers of width {config.hidden_size}, "
        f"{config.vocab_size:,} tokens. Load it with hf:{args.out}",
        soft_wrap=True,
        markup=False,
        highlight=False,
    )
    return 0


def _configure_demos(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--out", type=Path, required=True, metavar="FILE", help="the JSONL file")
    add("--agent", default="adaplan", help="adaplan, brief, mpo, naive or react (default: adaplan)")
    add("--agent-set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the agent; repeatable")
    add("--model", help="who answers instead of the expert; what succeeds is kept")
    add("--envs", "--env", default="all", help="names, such as maze,textcraft, or all (default: all)")
    add("--env-set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the environments; repeatable")
    add("--tasks", default="train", metavar="SPLIT[:N]", help="of each environment, such as train:500 (default: train)")
    add("--max-difficulty", type=int, metavar="N", help="leave out harder tasks")
    add("--repeats", type=int, default=1, help="episodes of each task (default: 1)")
    add("--noise", type=float, default=0.0, metavar="SHARE", help="turns at which the expert slips (default: 0)")
    add("--learner", metavar="MODEL", help="slip as this model would, which is to learn from it; without, at random")
    add("--train-slips", action="store_true", help="have slips imitated as well; without, they are seen, not trained")
    add("--rename", type=float, default=0.0, metavar="SHARE", help="episodes in which things swap names (default: 0)")
    add("--teacher", default="expert", help="expert, or observer: decides by what was seen (default: expert)")
    add("--seed", type=int, default=0, help="of everything (default: 0)")
    add("--concurrency", type=int, default=16, help="episodes at once (default: 16)")
    add("--from-run", type=Path, metavar="RUN", help="take the successful episodes of a recorded run instead")


def _run_demos(args: argparse.Namespace) -> int:
    import asyncio

    from adaplan_agents.models import load_model
    from adaplan_evaluation.commands import settings
    from adaplan_training.demos import DemoConfig, demonstrate
    from adaplan_training.replay import replay_run
    from adaplan_training.transcripts import Transcript, write_transcripts

    if args.out.exists():  # before hours of playing
        raise ConfigError(f"{args.out} is there already; choose another --out or delete it")
    if args.from_run is not None:
        print_count(write_transcripts(args.out, replay_run(args.from_run)), args.out)
        return 0
    split, tasks = parse_tasks(args.tasks)
    config = DemoConfig(
        agent=args.agent,
        agent_settings=settings(args.agent_set),
        envs=args.envs,
        env_settings=settings(args.env_set),
        split=split,
        tasks=tasks,
        max_difficulty=args.max_difficulty,
        repeats=args.repeats,
        noise=args.noise,
        train_slips=args.train_slips,
        rename=args.rename,
        seed=args.seed,
        teacher=args.teacher,
    )

    async def collect(on_demo: Callable[[Episode, int], None]) -> list[Transcript]:
        model, learner = (None if spec is None else load_model(spec) for spec in (args.model, args.learner))
        try:
            return [each async for each in demonstrate(config, model, args.concurrency, on_demo, learner)]
        finally:
            for each in (model, learner):
                if each is not None:
                    await each.aclose()

    with _progress() as on_demo:
        found = asyncio.run(collect(on_demo))
    if not found:
        raise ConfigError("no episode succeeded, so there is nothing to write")
    print_count(write_transcripts(args.out, found), args.out)
    return 0


def print_count(count: int, path: Path) -> None:
    """Say what was written."""
    from rich.console import Console

    Console().print(f"{count} conversations in {path}", soft_wrap=True, markup=False, highlight=False)


@contextmanager
def _progress() -> Iterator[Callable[[Episode, int], None]]:
    """Show a bar on stderr; it leaves nothing behind."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task, solved = bar.add_task("playing", total=None), 0

        def on_demo(episode: Episode, total: int) -> None:
            nonlocal solved
            solved += episode.success
            bar.update(task, total=total, advance=1, description=f"{solved} solved")

        yield on_demo


MAKE_MODEL = Command(
    "make a tiny language model from nothing",
    _configure_make_model,
    _run_make_model,
    description="Make a tokenizer of the suite's own text and a model with random weights, to be trained here.",
)
DEMOS = Command(
    "write demonstrations to imitate",
    _configure_demos,
    _run_demos,
    description="Write the conversations that an agent would have with a model that answers as the expert does.",
)
