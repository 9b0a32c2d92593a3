"""`adaplan eval`, `adaplan compare` and `adaplan show`."""

from __future__ import annotations

import argparse
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adaplan_envs.cli import Command
from adaplan_envs.errors import ConfigError, check_name

if TYPE_CHECKING:
    from adaplan_evaluation.store import Run
    from adaplan_evaluation.types import Episode


def _configure_eval(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--agent", default="adaplan", help="adaplan, react, naive, random, expert ... or module:attr (default: adaplan)"
    )
    add("--model", help="smollm2, hf:PATH_OR_ID, openai:NAME ...; for agents that ask one")
    add("--agent-set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the agent; repeatable")
    add("--envs", default="all", help="names, such as maze,wordle, or all that are installed (default: all)")
    add("--env-set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the environments; repeatable")
    add("--backend", help="real, simulated (by a language model) or auto (default: real); see docs/simulated.md")
    add("--simulator", help="who simulates: openai:NAME, smollm2, scripted ...")
    add("--split", default="test", help="of which tasks (default: test)")
    add("--episodes", type=_episodes, default=50, help="tasks of each environment, or all (default: 50)")
    add("--task", action="append", metavar="ID", help="play this task instead; repeatable")
    add("--max-difficulty", type=int, metavar="N", help="leave out harder tasks")
    add("--repeats", type=int, default=1, help="attempts at each task (default: 1)")
    add("--seed", type=int, default=0, help="of everything (default: 0)")
    add("--max-steps", type=int, help="limit of actions (default: each environment's own)")
    add("--deadline", type=float, metavar="SECONDS", help="limit of one episode")
    add("--token-budget", type=int, metavar="TOKENS", help="limit of one episode, read and written")
    add("--concurrency", type=int, default=16, help="episodes at once (default: 16)")
    add("--out", type=Path, metavar="DIR", help="where the results go (default: runs/AGENT-DATE-TIME)")
    add("--resume", action="store_true", help="go on with the run in --out; give the same settings again")
    add("--retry-errors", action="store_true", help="with --resume: play the episodes again that ended as error")


def _episodes(text: str) -> int | None:
    return None if text == "all" else int(text)


def settings(pairs: list[str]) -> dict[str, Any]:
    """Return ``["rules=agentgym", "n=3"]`` as a dictionary; values are read as YAML.

    Raises:
        ConfigError: a pair is not of that form.
    """
    import yaml

    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise ConfigError(f"{pair!r} must have the form KEY=VALUE")
        try:
            found[key] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise ConfigError(f"{pair!r}: the value is not valid YAML; put it in quotes") from None
    return found


def _run_eval(args: argparse.Namespace) -> int:
    from adaplan_evaluation.runner import evaluate

    out = args.out
    if out is None:
        if args.resume:
            raise ConfigError("--resume needs --out, the folder of the run")
        out = Path("runs") / f"{args.agent.replace(':', '-')}-{datetime.now():%Y%m%d-%H%M%S}"
    with _stoppable(), _progress() as on_episode:
        run = evaluate(
            args.agent,
            args.envs,
            model=args.model,
            agent_settings=settings(args.agent_set),
            split=args.split,
            episodes=args.episodes,
            tasks=args.task,
            max_difficulty=args.max_difficulty,
            repeats=args.repeats,
            seed=args.seed,
            max_steps=args.max_steps,
            env_settings={**settings(args.env_set), **_backend(args)},
            deadline=args.deadline,
            token_budget=args.token_budget,
            concurrency=args.concurrency,
            out=out,
            resume=args.resume,
            retry_errors=args.retry_errors,
            on_episode=on_episode,
        )
    _print_summary(run)
    overall = run.results["summary"]["overall"]
    return int(overall["errors"] == overall["episodes"])  # nothing was measured


def _backend(args: argparse.Namespace) -> dict[str, Any]:
    return {key: value for key in ("backend", "simulator") if (value := getattr(args, key)) is not None}


def _print_summary(run: Run) -> None:
    from rich.console import Console

    from adaplan_evaluation.tables import results_table

    console = Console()
    console.print(results_table(run.results))
    console.print(f"Files: {run.path}/episodes.jsonl and results.json", soft_wrap=True, markup=False, highlight=False)


@contextmanager
def _stoppable() -> Iterator[None]:
    """Let SIGTERM end the run as Ctrl-C does, so that the summary of what is finished is written."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    terminate = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    interrupt = signal.getsignal(signal.SIGINT)
    if interrupt is signal.SIG_IGN:  # a script's background job ignores Ctrl-C, and would ignore SIGTERM with it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, terminate)
        signal.signal(signal.SIGINT, interrupt)


@contextmanager
def _progress() -> Iterator[Callable[[Episode, int], None]]:
    """Show a bar with the running success on stderr; it leaves nothing behind."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from adaplan_envs.types import StopReason
    from adaplan_evaluation.tables import short

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    seen = {"episodes": 0, "solved": 0, "errors": 0}
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def on_episode(episode: Episode, total: int) -> None:
            failed = episode.stop_reason is StopReason.ERROR
            seen["episodes"] += not failed
            seen["solved"] += episode.success
            seen["errors"] += failed
            share = 100 * seen["solved"] / max(1, seen["episodes"])
            errors = f" · [red]{seen['errors']} errors[/red]" if seen["errors"] else ""
            bar.update(
                task, total=total, advance=1, description=f"{short(episode.env_id)} · solved {share:.0f}%{errors}"
            )

        yield on_episode


def _configure_compare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folders of runs; each is compared with the first")


def _run_compare(args: argparse.Namespace) -> int:
    from rich.console import Console

    from adaplan_evaluation.comparison import compare
    from adaplan_evaluation.store import load_run
    from adaplan_evaluation.tables import comparison_table

    first, *others = [load_run(path) for path in args.runs]
    if not others:
        raise ConfigError("compare needs two runs or more")
    for other in others:
        Console().print(comparison_table(compare(first, other)))
    return 0


def _configure_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="folder of a run")
    parser.add_argument("--task", metavar="ID", help="which task (default: the first that was solved, else the first)")
    parser.add_argument("--repeat", type=int, default=0, help="which attempt at it (default: 0)")
    parser.add_argument("--summary", action="store_true", help="show the table of the run instead")


def _run_show(args: argparse.Namespace) -> int:
    from rich.console import Console

    from adaplan_evaluation.store import load_run
    from adaplan_evaluation.tables import transcript

    run = load_run(args.run)
    if args.summary:
        _print_summary(run)
        return 0
    episodes = [episode for episode in run.episodes if episode.repeat == args.repeat]
    if args.task is not None:
        check_name("task of this run", args.task, {episode.task_id for episode in episodes})
        episodes = [episode for episode in episodes if episode.task_id == args.task]
    if not episodes:
        raise ConfigError(f"{args.run} holds no episode of repeat {args.repeat}")
    Console().print(transcript(next((episode for episode in episodes if episode.success), episodes[0])))
    return 0


EVAL = Command("benchmark an agent on the suite", _configure_eval, _run_eval)
COMPARE = Command("compare runs task by task", _configure_compare, _run_compare)
SHOW = Command("read one episode of a run, turn by turn", _configure_show, _run_show)
