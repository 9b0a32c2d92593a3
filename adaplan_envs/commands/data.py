"""``adaplan data get alfworld``: fetch data that the package does not hold."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from adaplan_envs.cli import Command


def _configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    get = actions.add_parser("get", help="fetch a data set")
    get.add_argument("name", choices=["alfworld"], help="which: alfworld, the official games")
    get.add_argument(
        "--from", dest="source", type=Path, metavar="DIR_OR_ZIP", help="a local copy instead of the network"
    )


def _run(args: argparse.Namespace) -> int:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from adaplan_envs.alfworld import official

    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        rows: dict[str, TaskID] = {}

        def show(what: str, done: int, total: int) -> None:
            if what not in rows:
                rows[what] = bar.add_task(what)
            bar.update(rows[what], completed=done, total=total or None)

        source = args.source or official.download(show)
        installed = official.install(source, show)
    if args.source is None:
        source.unlink()
    for split, size in installed.sizes.items():
        print(f"{split}: {size} of {official.SIZES[split]} games")
    if installed.skipped:
        print(f"passed over: {installed.skipped} (movable receptacles, slices, or not marked solvable)")
    print(f"in {installed.folder}")
    if not installed.complete:
        print("This is not the full release: task ids number the games that are here.")
    return 0


COMMAND = Command("fetch data that the package does not hold", _configure, _run)
