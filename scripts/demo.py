"""The main job, small: four agents on the suite, one table, one episode to read. `make demo` runs it."""

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

TASKS = {"expert": 10, "random": 10, "react": 1, "adaplan": 1}
"""Test tasks of each environment. The model, on a laptop without a GPU, gets the first of the expert's only."""
TURNS = 4
"""The language-model agents stop after this many actions; expert and random play on to the environment's own limit."""
ANSWER_TOKENS = 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2", help="any model spec, such as openai:NAME (default: smollm2)")
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
    with console.status(f"loading {args.model} (converted once and kept, the first time)"):
        model = load_model(args.model)
    for agent in ("react", "adaplan"):
        with console.status(f"{agent} with {args.model} plays {len(envs) * TASKS[agent]} tasks, all at once"):
            runs[f"{agent}, {args.model}\n{TASKS[agent]} task each"] = evaluate(
                agent,
                envs,
                model=model,
                agent_settings={"max_tokens": ANSWER_TOKENS},
                episodes=TASKS[agent],
                max_steps=TURNS,
                out=out / agent,
            )
    adaplan = list(runs.values())[-1].episodes
    shown = next((episode for episode in adaplan if episode.success), None)
    shown = shown or max(adaplan, key=lambda episode: (episode.score, episode.statuses.get("ok", 0)))
    console.print(transcript(shown))
    console.print()
    console.print(table(runs))
    console.print(
        f"The language model plays one test task of each environment and stops after {TURNS} actions; a benchmark "
        "gives it more tasks and the environment's own limit (adaplan eval).",
        style="dim",
    )
    if args.model == "smollm2":
        console.print(
            "smollm2 has 135 million parameters and was never trained on these tasks: it solves few.", style="dim"
        )
    console.print(f"Episodes: {out}/*/episodes.jsonl    Read one: adaplan show {out}/adaplan", soft_wrap=True)
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
