"""The main job, small: four players on the suite, one table, one episode to read. `make demo` runs it."""

from __future__ import annotations

import argparse
import io
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from adaplan_agents.models import load_model
from adaplan_envs import installed_ids
from adaplan_evaluation import Run, evaluate
from adaplan_evaluation.tables import short, transcript

TASKS = {"expert": 10, "random": 10, "brief": 8, "react": 1}
"""Test tasks of each environment. The large model, on a laptop without a GPU, gets the first of the others' only."""
PILOT = {"max_tokens": 24, "temperature": 0.5, "admissible": True}
TURNS, ANSWER_TOKENS = 4, 32
"""The large model stops after this many actions; the others play on to the environment's own limit."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2", help="who plays as react, any spec (default: smollm2)")
    parser.add_argument("--out", type=Path, default=Path("runs/demo"), help="where the runs go (default: runs/demo)")
    parser.add_argument("--picture", type=Path, metavar="FILE.svg", help="save the table as a picture, too")
    args = parser.parse_args()
    console = Console()
    envs = installed_ids()
    out = args.out / time.strftime("%Y%m%d-%H%M%S")
    runs: dict[str, Run] = {}
    for agent in ("expert", "random"):
        with console.status(f"{agent} plays {len(envs) * TASKS[agent]} tasks"):
            runs[f"{agent}\n{TASKS[agent]} tasks each"] = evaluate(agent, envs, episodes=TASKS[agent], out=out / agent)
    with console.status(f"pilot-tiny plays {len(envs) * TASKS['brief']} tasks"):
        played = evaluate(
            "brief", envs, model="pilot-tiny", agent_settings=PILOT, episodes=TASKS["brief"], out=out / "pilot"
        )
    runs[f"pilot-tiny\n{TASKS['brief']} tasks each"] = played
    with console.status(f"loading {args.model} (converted once and kept, the first time)"):
        model = load_model(args.model)
    with console.status(f"react with {args.model} plays {len(envs) * TASKS['react']} tasks, all at once"):
        runs[f"react, {args.model}\n{TASKS['react']} task each"] = evaluate(
            "react",
            envs,
            model=model,
            agent_settings={"max_tokens": ANSWER_TOKENS},
            episodes=TASKS["react"],
            max_steps=TURNS,
            out=out / "react",
        )
    shown = max(played.episodes, key=lambda episode: (episode.success, 4 <= episode.steps <= 8, episode.score))
    console.print(transcript(shown))
    console.print()
    console.print(table(runs))
    console.print(
        "pilot-tiny, 1.4 million parameters, comes with the package and was trained on these six environments, on "
        "other tasks; like random, it is held to commands that are possible (docs/pilot.md). "
        f"{args.model} plays one task of each as react and stops after {TURNS} actions; a "
        "benchmark gives it more tasks and the environment's own limit (adaplan eval).",
        style="dim",
    )
    console.print(f"Episodes: {out}/*/episodes.jsonl    Read one: adaplan show {out}/pilot", soft_wrap=True)
    if args.picture:
        paper = Console(record=True, width=78, file=io.StringIO())
        paper.print(table(runs))
        paper.save_svg(str(args.picture), title="make demo")


def table(runs: dict[str, Run]) -> Table:
    """Return success and mean score, in percent, of every agent in every environment."""
    result = Table(title="success % (score %)", title_justify="left", box=None, pad_edge=False)
    result.add_column("")
    for label in runs:
        result.add_column(label, justify="right")
    first = next(iter(runs.values()))
    for env_id in first.results["summary"]["envs"]:
        rows = [run.results["summary"]["envs"][env_id] for run in runs.values()]
        result.add_row(short(env_id), *[cell(row) for row in rows])
    result.add_row("average", *[cell(run.results["summary"]["overall"]) for run in runs.values()], style="bold")
    return result


def cell(row: dict[str, dict[str, float | None]]) -> str:
    """Return ``50 (72)``, or a dash where every episode was an error."""
    success, score = (row[name]["value"] for name in ("success_rate", "score"))
    return "-" if success is None or score is None else f"{100 * success:.0f} ({100 * score:.0f})"


if __name__ == "__main__":
    main()
