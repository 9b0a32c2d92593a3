"""`adaplan fidelity` and `adaplan judge-check`: how far to trust a simulator, and a judge, that are language models."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adaplan_envs.cli import Command
from adaplan_envs.errors import ConfigError, OutputError
from adaplan_evaluation.commands import settings

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_RATES = {
    "valid": "valid\n%",
    "done": "done\n%",
    "success": "success\n%",
    "facts": "facts\n%",
    "exact": "step\n%",
    "outcome": "outcome\n%",
    "faithful": "whole\n%",
}
_MEASURES = ("accuracy", "success_accuracy", "kappa", "rank_correlation")
_CLASSES = {"e2e": ("failed", "redundant", "efficient"), "format": ("bad", "good")}


def _configure_fidelity(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--env", default="all", help="names, such as maze,wordle, or all that are installed (default: all)")
    add("--simulator", required=True, help="openai:NAME, smollm2 ..., or scripted, scripted:0.1 to try it out")
    add("--episodes", type=int, default=30, help="tasks of each environment and player (default: 30)")
    add("--player", action="append", metavar="NAME", help="expert or random; repeatable (default: both)")
    add("--recorded", metavar="RUN", help="a run whose actions are played too")
    add("--split", default="test", help="of which tasks (default: test)")
    add("--seed", type=int, default=0, help="of everything (default: 0)")
    add("--concurrency", type=int, default=16, help="twins at once (default: 16)")
    add("--env-set", action="append", default=[], metavar="KEY=VALUE", help="a setting of both sides; repeatable")
    add("--twin-set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the twin; repeatable")
    add("--out", type=Path, metavar="FILE", help="write all figures as JSON")


def _run_fidelity(args: argparse.Namespace) -> int:
    from rich.console import Console

    from adaplan_evaluation.fidelity import PLAYERS, fidelity
    from adaplan_evaluation.store import load_run

    with _bar("playing twins") as advance:
        found = fidelity(
            args.env,
            args.simulator,
            split=args.split,
            episodes=args.episodes,
            players=args.player or PLAYERS,
            recorded=load_run(args.recorded) if args.recorded else None,
            seed=args.seed,
            concurrency=args.concurrency,
            env_settings=settings(args.env_set),
            twin_settings=settings(args.twin_set),
            on_episode=advance,
        )
    Console().print(fidelity_table(found))
    _write(args.out, found)
    return 0


def fidelity_table(found: Mapping[str, Any]) -> RenderableType:
    """Return the figures of `fidelity` as a table, with what they mean below."""
    table = _table(f"{found['simulator']} against the real environments · {found['split']} split")
    for title in (*_RATES.values(), "parts\nat", "steps", "n", "err"):
        table.add_column(title, justify="right", no_wrap=True)
    rows = dict(found["envs"])
    if len(rows) > 1:
        rows["all"] = found["overall"]
    for name, row in rows.items():
        parts = "-" if row["first_divergence"] is None else f"{row['first_divergence']:g}"
        counts = (parts, str(row["steps"]), str(row["episodes"]), str(row["errors"]))
        table.add_row(_short(name), *(_percent(row[key]) for key in _RATES), *counts)
    total = found["overall"]
    note = (
        "Agreement of steps (valid, done, success, step: all of it), of facts, and of episodes (outcome, whole: every "
        "step). parts at: the median step at which episodes part that do. n episodes; err: of them without an answer."
    )
    if found["played"] < found["sequences"]:
        note += f" The budget ended it: {found['played']} of {found['sequences']} sequences were played."
    return _noted(table, f"{note} {total['tokens']:,} tokens{_cost(total['cost'])}.")


def _configure_judge_check(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("runs", nargs="+", metavar="RUN", help="folders of runs, played in the real environments")
    add("--judge", action="append", required=True, metavar="MODEL", help="openai:NAME, smollm2 ...; several vote")
    add("--terms", default="e2e,adherence,plan_quality", help="with commas (default: %(default)s); also: format")
    add("--episodes", type=int, help="at most so many of each environment and run (default: all)")
    add("--slack", type=float, default=0.5, help="efficient is up to 1 + SLACK times the expert's steps (default: 0.5)")
    add("--prompts", type=Path, metavar="DIR", help="prompt files that replace the built-in ones")
    add("--cache", type=Path, metavar="DIR", help="keep a server's answers: judging again costs nothing")
    add("--concurrency", type=int, default=16, help="episodes at once (default: 16)")
    add("--out", type=Path, metavar="FILE", help="write all figures as JSON")


def _run_judge_check(args: argparse.Namespace) -> int:
    import asyncio

    from rich.console import Console

    from adaplan_evaluation.judge_check import judge_check_async
    from adaplan_evaluation.judges import load_judge
    from adaplan_evaluation.store import load_run

    runs = [load_run(path) for path in args.runs]
    settings_of = [run.results["config"].get("env_settings") for run in runs]
    if any(each != settings_of[0] for each in settings_of):
        raise ConfigError("these runs have different environment settings: judge them one after another")
    judge = load_judge(
        args.judge,
        env_settings=settings_of[0],
        prompts=args.prompts,
        cache=args.cache,
        slack=args.slack,
    )

    async def check() -> dict[str, Any]:
        try:
            with _bar("judging") as advance:
                return await judge_check_async(
                    runs,
                    judge,
                    terms=[term.strip() for term in args.terms.split(",")],
                    slack=args.slack,
                    episodes=args.episodes,
                    concurrency=args.concurrency,
                    on_episode=advance,
                )
        finally:
            await judge.aclose()

    found = asyncio.run(check())
    console = Console()
    for table in judge_tables(found):
        console.print(table)
    _write(args.out, found)
    return 0


def judge_tables(found: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Return the figures of `judge_check` as tables: one for each term, and the confusion of those with classes."""
    rows = dict(found["envs"])
    if len(rows) > 1:
        rows["all"] = found["overall"]
    for term in found["overall"]:
        table = _table(f"{term}: {found['judge']['name']} against the rules · {found['run']}")
        measures = [key for key in _MEASURES if key in found["overall"][term]]
        for title in (*(measure.replace("_", "\n") for measure in measures), "judged", "err"):
            table.add_column(title, justify="right", no_wrap=True)
        for name, row in rows.items():
            cells = [_ranged(row[term][key], percent="accuracy" in key) for key in measures]
            table.add_row(_short(name), *cells, str(row[term]["judged"]), str(row[term]["errors"]))
        yield _noted(table, "[95% interval]; err: no score from the judge, in no rate.")
        if term in _CLASSES:
            confusion = _table(f"{term}: rows are the truth, columns what the judge says", "truth")
            for title in _CLASSES[term]:
                confusion.add_column(title, justify="right")
            for title, counts in zip(_CLASSES[term], found["overall"][term]["confusion"], strict=True):
                confusion.add_row(title, *map(str, counts))
            yield _noted(confusion, "")
    yield _noted(None, f"{found['episodes']} episodes, {found['tokens']:,} tokens{_cost(found['cost'])}.")


def _noted(table: Table | None, note: str) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    return Group(*([] if table is None else [table]), Text(note, style="dim"))


def _table(title: str, first: str = "environment") -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(first, no_wrap=True)
    return table


def _percent(value: Mapping[str, Any]) -> str:
    return "-" if value["value"] is None else f"{100 * value['value']:.1f}"


def _ranged(value: Mapping[str, Any], percent: bool) -> str:
    if value["value"] is None:
        return "-"
    scale, digits = (100, 0) if percent else (1, 2)
    text = f"{scale * value['value']:.{digits}f}"
    if value["low"] is not None:
        text += f" [{scale * value['low']:.{digits}f}, {scale * value['high']:.{digits}f}]"
    return text


def _cost(dollars: float) -> str:
    return f", ${dollars:.4f}" if dollars else ""


def _short(env_id: str) -> str:
    return env_id.rpartition("/")[2].rpartition("-v")[0] or env_id


@contextmanager
def _bar(what: str) -> Iterator[Callable[[int], None]]:
    """Show a bar on stderr; it leaves nothing behind."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda total: bar.update(task, total=total, advance=1)


def _write(path: Path | None, found: Mapping[str, Any]) -> None:
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise OutputError(f"can't write {path}: {error.strerror}") from error


FIDELITY = Command("measure an LLM simulator against the real environments", _configure_fidelity, _run_fidelity)
JUDGE_CHECK = Command("measure an LLM judge against the simulator's truth", _configure_judge_check, _run_judge_check)
