"""`adaplan envs`: the suite at a glance."""

from __future__ import annotations

import argparse
import importlib
import json
from dataclasses import asdict, dataclass

from adaplan_envs.cli import Command
from adaplan_envs.core import TextEnv
from adaplan_envs.registration import SUITE, Entry


@dataclass(frozen=True, slots=True)
class Row:
    """What is known of one environment. `splits` and `rulesets` are empty where it can't be loaded.

    Attributes:
        id: Gymnasium id.
        name: its short name.
        splits: number of tasks in each split.
        rulesets: names of its rulesets.
        extra: the optional dependency group that it needs, or None.
        installed: whether the packages of that group are there.
        problem: what keeps it from being used and what mends that, or None.
    """

    id: str
    name: str
    splits: dict[str, int]
    rulesets: list[str]
    extra: str | None
    installed: bool
    problem: str | None


def describe(entry: Entry) -> Row:
    """Return what is known of `entry`; an environment that can't be loaded is described as such."""
    splits: dict[str, int] = {}
    rulesets: list[str] = []
    problem = None
    if entry.installed:
        module, _, name = entry.entry_point.partition(":")
        try:
            env: type[TextEnv] = getattr(importlib.import_module(module), name)
            splits, rulesets = dict(env.splits), list(env.rulesets)
        except Exception as error:  # whatever a broken package raises on import must not hide the other environments
            problem = f"can't be loaded: {type(error).__name__}: {error}"
    else:
        problem = f'pip install "adaplan[{entry.extra}]"'
    return Row(entry.id, entry.short_name, splits, rulesets, entry.extra, entry.installed, problem)


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def _run(args: argparse.Namespace) -> int:
    rows = [describe(entry) for entry in SUITE]
    if args.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
        return 0
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("environment", "tasks", "rules", "needs", show_lines=True)
    for row in rows:
        needs = f"adaplan[{row.extra}] (installed)" if row.extra else "nothing more"
        table.add_row(
            Text(row.id, no_wrap=True),
            "\n".join(f"{name} {size:,}" for name, size in row.splits.items()) or "-",
            "\n".join(row.rulesets) or "-",
            Text(row.problem, style="yellow") if row.problem else Text(needs),
        )
    Console().print(table)
    return 0


COMMAND = Command("list the environments, their tasks and what they need", _configure, _run)
