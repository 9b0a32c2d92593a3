"""Training, small and from nothing: a tiny model learns to walk mazes, first by imitation, then by GRPO.

`make train-tiny` runs it with one seed; ``--seeds 0 1 2 --picture FILE.svg`` draws the learning curves of several.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import transformers
from rich.console import Console
from rich.table import Table

from adaplan_evaluation import Run, evaluate, load_run
from adaplan_training.demos import DemoConfig, demonstrate
from adaplan_training.make_model import make_model
from adaplan_training.metrics import read_metrics
from adaplan_training.progress import live
from adaplan_training.recipe import load_recipe
from adaplan_training.trainer import train
from adaplan_training.transcripts import Transcript, write_transcripts

PARAMETERS, VOCABULARY = 200_000, 640
DEMOS = {
    "agent": "brief",
    "envs": "maze",
    "env_settings": {"max_steps": 20},
    "max_difficulty": 8,
    "repeats": 4,
    "noise": 0.4,
    "train_slips": True,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="a run for each (default: 0)")
    parser.add_argument("--out", type=Path, default=Path("runs/train-tiny"), help="where it all goes")
    parser.add_argument("--picture", type=Path, metavar="FILE.svg", help="draw the learning curves")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="settings of both recipes to replace")
    args = parser.parse_args()
    console = Console()
    began = time.perf_counter()
    folders = [run(args.out / f"seed-{seed}", seed, args.overrides, console) for seed in args.seeds]
    console.print(table(folders))
    console.print(f"{(time.perf_counter() - began) / 60:.1f} minutes. Play on: adaplan train --help")
    console.print(f"Look at an episode: adaplan show {folders[0]}/grpo/eval/step-000000", soft_wrap=True)
    if args.picture:
        draw(folders, args.picture)


def run(folder: Path, seed: int, overrides: Sequence[str], console: Console) -> Path:
    """Do all that is not done yet in `folder`; a run that was stopped goes on."""
    model, demos = folder / "model", folder / "demos.jsonl"
    transformers.utils.logging.disable_progress_bar()
    if not model.exists():
        made = make_model(model, PARAMETERS, vocabulary=VOCABULARY, envs="maze", seed=seed)
        console.print(f"seed {seed}: a model of {made.num_parameters():,} random weights", highlight=False)
    if not demos.exists():
        count = write_transcripts(demos, asyncio.run(demonstrations(seed)))
        console.print(f"seed {seed}: {count} demonstrations, in which two moves of five are slips", highlight=False)
    for name, settings in (
        ("sft", [f"model.spec=hf:{model}", f"data.files=[{demos}]"]),
        ("grpo", [f"model.spec=hf:{folder}/sft/checkpoints/last"]),
    ):
        config = load_recipe(f"tiny/maze-{name}", [*settings, f"out={folder / name}", f"seed={seed}", *overrides])
        with live() as on_step:
            train(config, resume=(folder / name / "config.yaml").exists(), on_step=on_step)
    return folder


async def demonstrations(seed: int) -> list[Transcript]:
    """Return what the expert does in short mazes, and after its slips."""
    return [each async for each in demonstrate(DemoConfig(**DEMOS, seed=seed))]


def evaluations(folder: Path) -> list[tuple[int, float]]:
    """Return (step, success) of the evaluations on held-out mazes while GRPO ran; step 0 is the imitator."""
    lines = read_metrics(folder / "grpo" / "metrics.jsonl")
    return [(line["step"], line["eval/success"]) for line in lines if "eval/success" in line]


def greedy(folder: Path, name: str) -> Run:
    """Return the run of a stage's last checkpoint on held-out mazes when it takes its likeliest move each time."""
    out = folder / f"greedy-{name}"
    if not (out / "results.json").exists():
        config = load_recipe(folder / name / "config.yaml")
        evaluate(
            config.agent.name,
            config.rollout.envs,
            model=f"hf:{folder}/{name}/checkpoints/last",
            agent_settings={"max_tokens": config.agent.turn_tokens},
            max_difficulty=config.rollout.max_difficulty,
            max_steps=config.rollout.max_steps,
            episodes=None,
            concurrency=config.rollout.concurrency,
            out=out,
        )
    return load_run(out)


def table(folders: Sequence[Path]) -> Table:
    """Return success on held-out mazes, in percent with 95% intervals, before and after GRPO."""
    result = Table(title="success on held-out mazes, %", title_justify="left", box=None, pad_edge=False)
    for name in ("", "after SFT", "after GRPO", "points", "greedy: SFT", "GRPO"):
        result.add_column(name, justify="left" if not name else "right")
    for folder in folders:
        (first, before), *_, (last, after) = evaluations(folder)
        runs = [load_run(folder / "grpo" / "eval" / f"step-{step:06d}") for step in (first, last)]
        rates = [run.results["summary"]["overall"]["success_rate"] for run in runs]
        cells = [f"{100 * rate['value']:.1f} [{100 * rate['low']:.0f}, {100 * rate['high']:.0f}]" for rate in rates]
        best = [greedy(folder, name).results["summary"]["overall"]["success_rate"]["value"] for name in ("sft", "grpo")]
        points = f"{100 * (after - before):+.1f}"
        result.add_row(folder.name, *cells, points, *[f"{100 * value:.1f}" for value in best])
    return result


def draw(folders: Sequence[Path], path: Path) -> None:
    """Draw success over the steps of GRPO, a line for each seed."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3), layout="constrained")
    axes = figure.subplots()
    for folder in folders:
        steps, rates = zip(*evaluations(folder), strict=True)
        axes.plot(steps, [100 * rate for rate in rates], marker=".", label=folder.name.replace("-", " "))
    axes.set(xlabel="step of GRPO", ylabel="success on held-out mazes, %", ylim=(0, None))
    axes.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
