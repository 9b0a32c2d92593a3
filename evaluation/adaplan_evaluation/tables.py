"""Results as a person reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from adaplan_evaluation.comparison import Comparison
from adaplan_evaluation.types import Episode

_TITLES = {"in_domain": "in-domain", "out_of_domain": "out-of-domain", "overall": "average"}
_COLUMNS = ("success %", "score\n%", "steps/\nexpert", "invalid\n%", "format\n%", "tokens", "s", "n", "err")
_STATUS_STYLES = {"ok": "green", "no_effect": "yellow", "invalid": "red", "unparsed": "red"}


def short(env_id: str) -> str:
    """Return an id without namespace and version."""
    return env_id.rpartition("/")[2].rpartition("-v")[0] or env_id


def results_table(results: Mapping[str, Any]) -> RenderableType:
    """Return the summary of a run as a table, 80 columns wide, with what its columns mean below."""
    agent = results["config"]["agent"]
    table = _table(f"{agent.get('name', 'agent')} · {results['config']['split']} split")
    for name in _COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    summary = results["summary"]
    for env_id, row in summary["envs"].items():
        table.add_row(short(env_id), *_cells(row))
    averages = [name for name in _TITLES if summary.get(name, {}).get("envs", 0) > 1]
    for name in averages:
        table.add_row(Text(_TITLES[name], style="bold"), *_cells(summary[name]))
    notes = ["success % [95% interval]; tokens and seconds for an episode; n episodes, err of them errors, in no rate."]
    if cost := summary.get("overall", {}).get("cost"):
        notes.append(f"Cost: ${cost:.4f}.")
    if not results["complete"]:
        notes.append("The run is not complete.")
    causes = summary.get("overall", {}).get("error_causes", {})
    errors = "".join(f"\n{number} x {cause}" for cause, number in causes.items())
    return Group(table, Text(" ".join(notes), style="dim") + Text(errors, style="red"))


def _table(title: str) -> Table:
    # No frame: its columns of blanks would not leave room for the numbers in a terminal of the usual width.
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("environment", no_wrap=True)
    return table


def _cells(row: Mapping[str, Any]) -> list[RenderableType]:
    tokens = [row[name]["value"] for name in ("prompt_tokens", "completion_tokens")]
    return [
        _percent(row["success_rate"], ranged=True),
        _percent(row["score"]),
        _number(row["expert_ratio"], 2),
        _percent(row["invalid_rate"]),
        _percent(row["format_rate"]),
        "-" if None in tokens else f"{sum(tokens):,.0f}",
        _number(row["seconds"], 1),
        str(row["episodes"]),
        Text(str(row["errors"]), style="red" if row["errors"] else ""),
    ]


def _percent(interval: Mapping[str, Any], ranged: bool = False) -> str:
    if interval["value"] is None:
        return "-"
    text = f"{100 * interval['value']:.1f}"
    return f"{text} [{100 * interval['low']:.0f}, {100 * interval['high']:.0f}]" if ranged else text


def _number(interval: Mapping[str, Any], digits: int) -> str:
    return "-" if interval["value"] is None else f"{interval['value']:.{digits}f}"


def comparison_table(comparison: Comparison) -> RenderableType:
    """Return a comparison as a table, with what could not be compared below."""
    table = _table(f"{comparison.second} against {comparison.first}")
    for name in ("metric", "tasks", comparison.first, comparison.second, "difference", "better", "worse"):
        table.add_column(name, justify="right", no_wrap=name == "difference", overflow="fold")
    for row in comparison.rows:
        value, low, high, _ = row.difference
        clear = low is not None and high is not None and (low > 0 or high < 0)
        change = f"{_points(value, 1)} [{_points(low)}, {_points(high)}]"
        table.add_row(
            short(row.env_id),
            row.metric.removesuffix("_rate"),
            str(row.pairs),
            f"{100 * row.first:.1f}",
            f"{100 * row.second:.1f}",
            Text(change, style="bold" if clear else ""),
            str(row.better),
            str(row.worse),
        )
    lines = ["Percent and percentage points; [95% interval]; bold where it excludes 0."]
    if comparison.only_first or comparison.only_second:
        lines.append(
            f"Not compared: {comparison.only_first} tasks that only {comparison.first} has, "
            f"{comparison.only_second} that only {comparison.second} has."
        )
    lines += [f"Differs: {note}." for note in comparison.notes]
    return Group(table, Text("\n".join(lines), style="dim"))


def _points(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else f"{100 * value:+.{digits}f}"


def transcript(episode: Episode) -> RenderableType:
    """Return one episode to read, turn by turn. The plan is shown where it changed."""
    verdict = "solved" if episode.success else f"not solved ({episode.stop_reason})"
    expert = "" if episode.expert_steps is None else f", the expert needs {episode.expert_steps}"
    parts: list[RenderableType] = [
        Rule(Text(f"{episode.task_id} · repeat {episode.repeat} · {verdict}", style="bold")),
        _labelled("goal", episode.goal),
        _labelled("outcome", f"{episode.steps} of {episode.max_steps} steps{expert}; score {episode.score:.2f}"),
    ]
    plan: tuple[str, ...] | None = None
    for number, turn in enumerate(episode.turns, 1):
        parts += [Text(), Text(f"turn {number}", style="bold"), _labelled("sees", turn.observation)]
        if turn.plan is not None and turn.plan != plan:
            steps = "\n".join(f"{step}. {text}" for step, text in enumerate(turn.plan, 1))
            parts.append(_labelled("plan", steps or "(empty)"))
            plan = turn.plan
        if turn.plan_step is not None:
            parts.append(_labelled("plan step", str(turn.plan_step)))
        if not turn.action and turn.raw:  # what could not be read is shown as it came
            parts.append(_labelled("answers", turn.raw))
        elif turn.thought:
            parts.append(_labelled("thinks", turn.thought))
        status = str(turn.action_status)
        parts.append(_labelled("does", turn.action or "(no action found)", status, _STATUS_STYLES.get(status, "")))
    parts += [Text(), _labelled("ends with", episode.observation)]
    if episode.error is not None:
        parts.append(_labelled("error", episode.error.traceback or str(episode.error)))
    return Group(*parts)


def _labelled(label: str, text: str, note: str = "", style: str = "") -> RenderableType:
    line = Table.grid(padding=(0, 1))
    line.add_column(width=9, style="dim")
    line.add_column()
    # Text and not str: an observation may hold what rich would take for markup.
    line.add_row(label, Text(text.strip()) + Text(f"  [{note}]", style=style) if note else Text(text.strip()))
    return Padding(line, (0, 0, 0, 2))
