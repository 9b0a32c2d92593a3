"""The rows of a study as Markdown, in the layout of the paper's tables, and Figure 3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

from adaplan_envs.errors import require
from adaplan_evaluation.suite import IN_DOMAIN, OUT_OF_DOMAIN
from adaplan_evaluation.tables import short
from adaplan_training.reproduce import Cells, Study, errors_of, success_by_seed
from adaplan_training.studies import DIFFERENCES, PAPER_CLAIMS

TERMS = ("format", "adherence", "e2e", "plan_quality")


def main_table(study: Study, rows: Sequence[Cells]) -> str:
    """Return success rates in percent: in domain, out of domain, and their averages."""
    summaries = [cells.summary if cells.runs else {} for cells in rows]
    played = {env_id for summary in summaries for env_id in summary.get("envs", {})}
    columns: list[tuple[str, tuple[str, ...]]] = []
    for envs, title, key in ((IN_DOMAIN, "ID avg", "in_domain"), (OUT_OF_DOMAIN, "OOD avg", "out_of_domain")):
        some = [env_id for env_id in envs if env_id in played]
        columns += [(short(env_id), ("envs", env_id)) for env_id in some]
        columns += [(title, (key,))] if len(some) > 1 else []
    columns += [(short(env_id), ("envs", env_id)) for env_id in sorted(played - {*IN_DOMAIN, *OUT_OF_DOMAIN})]
    columns += [("average", ("overall",))] if len(played) > 1 else []
    head = ["", *(title for title, _ in columns), "seeds", "errors", "paper"]
    lines = []
    for cells, summary in zip(rows, summaries, strict=True):
        values = [_rate(summary, keys) for _, keys in columns]
        seeds = " / ".join(f"{100 * value:.1f}" for value in success_by_seed(cells.runs)) or "-"
        lines.append([cells.row.label, *values, seeds, str(errors_of(cells.runs)), "(blank)"])
    number = len(study.config.seeds)
    tasks = study.config.episodes or "all"
    caption = (
        f"Success rate in % with its 95% interval; {tasks} test tasks of each environment, {number} "
        f"seed{'s' if number > 1 else ''}, whose averages are under *seeds*; *errors* are episodes in no rate."
    )
    return _page(study, [_markdown(head, lines), caption, PAPER_CLAIMS], rows)


def _rate(summary: Mapping[str, Any], keys: Sequence[str]) -> str:
    found: Any = summary
    for key in keys:
        found = found.get(key, {})
    rate = found.get("success_rate", {"value": None})
    if rate["value"] is None:
        return "-"
    return f"{100 * rate['value']:.1f} [{100 * rate['low']:.0f}, {100 * rate['high']:.0f}]"


def agreement_table(study: Study, cells: Cells, found: Sequence[Mapping[str, Any]]) -> str:
    """Return how far judges agree with the simulator, over all environments (Table 10)."""
    head = ["judge", "e2e accuracy", "e2e kappa", "success accuracy", "adherence rank", "plan quality rank", "errors"]
    lines = []
    for each in found:
        by_term = each["overall"]
        e2e = by_term["e2e"]
        measures = [e2e["accuracy"], e2e["kappa"], e2e["success_accuracy"]]
        measures += [by_term[term]["rank_correlation"] for term in ("adherence", "plan_quality")]
        errors = sum(term["errors"] for term in by_term.values())
        lines.append([each["spec"], *map(_measure, measures), str(errors)])
    caption = "With 95% intervals. The simulator stands where the paper has people; the paper's figures are left blank."
    return _page(study, [_markdown(head, lines), caption], [cells])


def _measure(interval: Mapping[str, Any]) -> str:
    if interval["value"] is None:
        return "-"
    ends = "" if interval["low"] is None else f" [{interval['low']:.2f}, {interval['high']:.2f}]"
    return f"{interval['value']:.2f}{ends}"


def figure3(study: Study, runs: Sequence[Sequence[Mapping[str, Any]]]) -> str:
    """Return each term's mean in the first and the last quarter of each stage, and draw its course."""
    courses = [[line for line in metrics if "stage" in line] for metrics in runs]
    rows = []
    for stage in dict.fromkeys(line["stage"] for line in courses[0]):
        parts = [[line for line in course if line["stage"] == stage] for course in courses]
        quarter = max(1, len(parts[0]) // 4)
        cells = []
        for term in TERMS:
            ends = [
                _mean([line.get(f"reward/{term}") for part in parts for line in part[chosen]])
                for chosen in (slice(quarter), slice(-quarter, None))
            ]
            cells.append(" -> ".join("-" if end is None else f"{end:.2f}" for end in ends))
        rows.append([stage, str(len(parts[0])), *cells])
    path = study.folder / "figure3.png"
    _draw(courses, path)
    caption = (
        "Mean of each reward term over the rollouts in the first and the last quarter of a stage, on [0, 1], trained "
        f"on in that stage or not; {len(courses)} run{'s' if len(courses) > 1 else ''}, step by step in {path.name} "
        "(thin lines: each run; thick: their mean; vertical: where a stage begins)."
    )
    return _page(study, [_markdown(["stage", "steps", *TERMS], rows), caption], [])


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _draw(courses: Sequence[Sequence[Mapping[str, Any]]], path: Path) -> None:
    require("matplotlib", "report")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.5), layout="constrained")
    axes = figure.subplots()
    for number, term in enumerate(TERMS):
        colour = f"C{number}"
        by_step: dict[int, list[float]] = {}
        for lines in courses:
            known = [(line["step"], line[f"reward/{term}"]) for line in lines if line.get(f"reward/{term}") is not None]
            if known:
                axes.plot(*zip(*known, strict=True), color=colour, linewidth=0.5, alpha=0.4)
            for step, value in known:
                by_step.setdefault(step, []).append(value)
        steps = sorted(by_step)
        axes.plot(steps, [fmean(by_step[step]) for step in steps], color=colour, label=term)
    for before, after in pairwise(courses[0]):
        if before["stage"] != after["stage"]:
            axes.axvline(after["step"] - 0.5, color="0.7", linewidth=0.8)
    axes.set(xlabel="step", ylabel="reward term", ylim=(0, 1.02))
    axes.legend(frameon=False, ncols=len(TERMS), loc="lower right")
    figure.savefig(path, dpi=150)


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _page(study: Study, parts: Sequence[str], rows: Sequence[Cells]) -> str:
    """Return a page: title, table, failures, and how this differs from the paper's protocol."""
    name = "Figure 3" if study.name == "figure3" else f"Table {study.name}"
    title = f"# {name}: {study.table.title} ({study.config.scale} scale, {study.model})"
    failures = [f"- {failure}" for cells in rows for failure in cells.failures]
    if failures:
        failures = ["Cells that failed (the same command tries them again):\n\n" + "\n".join(failures)]
    notes = [*DIFFERENCES, *study.scale.differences]
    if study.config.overrides:
        notes.append(f"Settings replaced in every recipe: `{' '.join(study.config.overrides)}`.")
    if study.table.second_model:
        notes.append("Which of its models the paper's table is about was not checked; this is the second of Table 1's.")
    differs = "## Differences from the paper's protocol\n\n" + "\n".join(f"- {note}" for note in notes)
    return "\n\n".join([title, *parts, *failures, differs]) + "\n"
