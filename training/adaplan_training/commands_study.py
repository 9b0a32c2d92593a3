"""`adaplan reproduce` and `adaplan check-run`."""

from __future__ import annotations

import argparse
from pathlib import Path

from adaplan_envs.cli import Command
from adaplan_envs.errors import ConfigError, OutputError, require


def _configure_reproduce(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("table", metavar="TABLE", help="1 to 4, 6 to 10, or figure3")
    add("overrides", nargs="*", metavar="KEY=VALUE", help="settings to replace in every recipe: rollout.tasks=4")
    add("--scale", default="tiny", help="mini or tiny: two cores; paper: its own models and numbers (default: tiny)")
    add("--out", default="runs/reproduce", metavar="DIR", help="of everything (default: runs/reproduce)")
    add("--seeds", type=int, default=3, metavar="N", help="runs of each row (default: 3)")
    add("--episodes", type=int, default=50, metavar="N", help="test tasks of each environment; 0: all (default: 50)")
    add("--envs", help="of the evaluations (default: all that are installed; at mini scale, maze)")
    add("--model", metavar="SPEC", help="another model to begin with")
    add(
        "--frontier",
        action="append",
        default=[],
        metavar="SPEC",
        help="openai:NAME ..., for Tables 9 and 10; repeatable",
    )
    add("--dry-run", action="store_true", help="list the cells: kept, or to do")


def _run_reproduce(args: argparse.Namespace) -> int:
    for module in ("torch", "transformers"):
        require(module, "train")
    from rich.console import Console
    from rich.markdown import Markdown

    from adaplan_training.reproduce import Study, StudyConfig
    from adaplan_training.study_tables import agreement_table, figure3, main_table
    from adaplan_training.trainer import Stopped

    if args.seeds < 1:
        raise ConfigError(f"--seeds is {args.seeds}; give 1 or more")
    config = StudyConfig(
        args.scale,
        args.out,
        tuple(range(args.seeds)),
        args.episodes or None,
        args.envs,
        args.model,
        tuple(args.frontier),
        tuple(args.overrides),
    )
    errors = Console(stderr=True)
    study = Study(args.table, config, lambda text: errors.print(text, markup=False, highlight=False))
    console = Console()
    if args.dry_run:
        for line in study.plan():
            console.print(line, markup=False, highlight=False, soft_wrap=True)
        return 0
    try:
        if args.table == "figure3":
            rows, text = [], figure3(study, study.metrics())
        else:
            rows = study.run()
            text = (
                main_table(study, rows)
                if args.table != "10"
                else agreement_table(study, rows[0], study.agreements(rows[0]))
            )
    except Stopped:
        errors.print("stopped; the same command goes on")
        return 130
    path = study.folder / f"{'figure3' if args.table == 'figure3' else 'table-' + args.table}.md"
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"can't write {path}: {error.strerror}") from error
    console.print(Markdown(text))
    console.print(f"in {path}", markup=False, highlight=False, soft_wrap=True)
    return 1 if any(cells.failures for cells in rows) else 0


def _configure_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folders, searched at every depth")
    parser.add_argument("--no-rewards", action="store_true", help="Eq. 1 alone: don't judge stored rollouts anew")


def _run_check(args: argparse.Namespace) -> int:
    require("torch", "train")
    from rich.console import Console

    from adaplan_training.check_run import check_run

    console, failed = Console(highlight=False, markup=False, soft_wrap=True), False
    for folder in args.runs:
        check = check_run(folder, rewards=not args.no_rewards)
        for line in check.wrong:
            console.print(f"wrong: {line}")
        for line in check.notes:
            console.print(f"note: {line}")
        failed = failed or bool(check.wrong)
        console.print(
            f"{folder}: {check.episodes} episodes in {check.files} files; Eq. 1 in {check.revisions} revisions, "
            f"{check.values} logged figures computed anew; {len(check.wrong)} wrong"
        )
    return 1 if failed else 0


REPRODUCE = Command(
    "make a table of the paper anew",
    _configure_reproduce,
    _run_reproduce,
    "Train and evaluate what a table of the PilotRL paper compares. Finished cells are kept: the same command goes on.",
)
CHECK_RUN = Command(
    "check stored trajectories",
    _configure_check,
    _run_check,
    "Check that no revision changes steps that were played (Eq. 1), and that rollouts are worth what was logged.",
)
