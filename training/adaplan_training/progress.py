"""What a person sees of a running training: one live table, or a line for each step where there is no terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from adaplan_training.trainer import OnStep


@contextmanager
def live() -> Iterator[OnStep]:
    """Yield a function for `train(on_step=...)` that keeps the display on stderr up to date."""
    console = Console(stderr=True)
    seen: dict[str, Any] = {}

    if not console.is_terminal:

        def line(step: int, steps: int, metrics: Mapping[str, Any]) -> None:
            console.print(f"step {step}/{steps} " + " ".join(f"{name}={text}" for name, text in _summary(metrics)))

        yield line
        return
    with Live(_table(0, 0, seen), console=console, refresh_per_second=2) as display:

        def update(step: int, steps: int, metrics: Mapping[str, Any]) -> None:
            seen.update(metrics)  # an evaluation stays until the next one
            display.update(_table(step, steps, seen))

        yield update


def _table(step: int, steps: int, metrics: Mapping[str, Any]) -> Table:
    table = Table(title=f"step {step} of {steps}" if steps else "loading", title_justify="left", show_header=False)
    for name, text in _summary(metrics):
        table.add_row(name, text)
    return table


def _summary(metrics: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the rows of the display, those that this step has."""
    rows = []
    for name in ("stage", "reward", *(key for key in metrics if key.startswith("reward/")), "success", "eval/success"):
        if name in metrics:
            value = metrics[name]
            rows.append((name, value if isinstance(value, str) else f"{value:.3f}"))
    for name in ("loss", "entropy", "clip_fraction", "kl", "grad_norm", "lr"):
        if name in metrics:
            rows.append((name, f"{metrics[name]:.3g}"))
    if "groups/dead" in metrics:
        rows.append(("groups/dead", str(metrics["groups/dead"])))
    if metrics.get("episodes/lost"):
        rows.append(("episodes/lost", str(metrics["episodes/lost"])))
    times = {name.removeprefix("time/"): value for name, value in metrics.items() if name.startswith("time/")}
    total = sum(times.values())
    if total:
        tokens = metrics.get("tokens/sampled", 0) + metrics.get("tokens/read", 0)
        rows.append(("tokens/s", f"{tokens / total:.0f}"))
        rows.append(("time", " ".join(f"{name} {value / total:.0%}" for name, value in times.items())))
    return rows
