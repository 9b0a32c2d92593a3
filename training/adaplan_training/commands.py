"""`adaplan train`."""

from __future__ import annotations

import argparse
from contextlib import nullcontext

from adaplan_envs.cli import Command
from adaplan_envs.errors import require

DESCRIPTION = """Train as RECIPE says: a YAML file, or a built-in recipe such as tiny/maze-grpo. KEY=VALUE replaces a
setting: optim.lr=1e-5, stages.0.steps=20, out=runs/mine. On several GPUs:
torchrun --standalone --nproc-per-node 8 --no-python adaplan train RECIPE"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", metavar="RECIPE", help="a YAML file, or the name of a built-in one")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="settings to replace")
    parser.add_argument("--resume", action="store_true", help="go on with the run in out=")
    parser.add_argument("--dry-run", action="store_true", help="say what the run would do, need and take")


def _run(args: argparse.Namespace) -> int:
    for module in ("torch", "transformers"):
        require(module, "train")
    from rich.console import Console

    from adaplan_training.parallel import join, leave
    from adaplan_training.progress import live
    from adaplan_training.recipe import load_recipe
    from adaplan_training.trainer import Stopped, Trainer, train

    config = load_recipe(args.recipe, args.overrides)
    world = join()
    console = Console(quiet=not world.leads)
    if args.dry_run:
        from rich.table import Table

        from adaplan_training.dryrun import describe_run

        table = Table(show_header=False)
        for row in describe_run(Trainer(config)):
            table.add_row(*row)
        console.print(table)
        return 0
    try:
        with live() if world.leads else nullcontext() as on_step:
            result = train(config, resume=args.resume, on_step=on_step)
    except Stopped:
        console.print(
            f"stopped; its checkpoint is in {config.out}: the same command with --resume goes on", soft_wrap=True
        )
        return 130
    finally:
        leave()
    best = f"best success {result.best:.3f}, " if result.best is not None else ""
    name = "best" if result.best is not None else "last"
    console.print(
        f"{result.steps} steps, {best}model: hf:{result.path}/checkpoints/{name}", soft_wrap=True, highlight=False
    )
    return 0


TRAIN = Command("train a model by a recipe", _configure, _run, DESCRIPTION)
