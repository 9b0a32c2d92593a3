"""How far to trust a judge: what it says against the simulator's truth, on stored runs (the paper's Table 10)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from adaplan_envs.errors import ConfigError
from adaplan_envs.types import StopReason
from adaplan_evaluation.agreement import kappa, plain, rank_correlation, rate, sums_by_task
from adaplan_evaluation.judges import Judge, Judgement, RulesJudge, judge_episodes
from adaplan_evaluation.judges.llm import LLMJudge
from adaplan_evaluation.judges.rules import SLACK
from adaplan_evaluation.loops import run_sync
from adaplan_evaluation.metrics import Interval
from adaplan_evaluation.provenance import commit, versions
from adaplan_evaluation.store import Run
from adaplan_evaluation.types import Episode

_CLASSES = {"format": 2, "e2e": 3}
"""Terms whose scores are classes, and how many; the others are compared by rank."""

Row = tuple[Episode, dict[str, Judgement], dict[str, Judgement]]
"""An episode, the truth, and what the judge says."""


async def judge_check_async(
    runs: Run | Sequence[Run],
    judge: Judge,
    *,
    terms: Sequence[str] = ("e2e", "adherence", "plan_quality"),
    slack: float = SLACK,
    episodes: int | None = None,
    concurrency: int = 16,
    on_episode: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Judge the episodes of `runs` by `judge` and by the rules, and return how far they agree; JSON types only.

    For each environment and over all (``overall``), by term: ``judged``, ``errors`` (no score from the judge; they are
    in no rate), and

    - ``e2e``, ``format``: ``accuracy``, Cohen's ``kappa``, ``confusion`` (rows the truth, columns the judge, classes in
      rising order); for ``e2e`` also ``success_accuracy``, whether it knows success from failure;
    - ``adherence``, ``plan_quality``: Spearman's ``rank_correlation`` and ``mean_difference`` on [0, 1].

    Args:
        runs: one or several, with the turns of their episodes. Those that ended as error or were played by a twin are
            left out.
        judge: the one to be measured.
        terms: which of `TERMS`.
        slack: of the rules judge, which stands for the truth.
        episodes: at most so many of each environment and run, the first ones; None for all.
        concurrency: episodes that are judged at once.
        on_episode: is told how many episodes there are, once for each that is judged.

    Raises:
        ConfigError: nothing to judge.
        ModelAccessError: the judge's model can't be used at all.
    """
    runs = [runs] if isinstance(runs, Run) else list(runs)
    names = ", ".join(run.name for run in runs)
    chosen: list[Episode] = []
    truths: list[dict[str, Judgement]] = []
    for run in runs:
        some = _judgeable(run, episodes)
        rules = RulesJudge(slack=slack, env_settings=run.results["config"].get("env_settings"))
        truths += [rules.judge_now(episode, terms) for episode in some]
        chosen += some
        await rules.aclose()
    if not chosen:
        raise ConfigError(f"{names} holds no episode that the real simulator can judge")
    said = await judge_episodes(chosen, terms, judge, concurrency, on_episode)
    rows = list(zip(chosen, truths, said, strict=True))
    env_ids = sorted({episode.env_id for episode in chosen})
    by_env = {env_id: [row for row in rows if row[0].env_id == env_id] for env_id in env_ids}
    measured = {
        name: {term: _term(term, some) for term in terms} for name, some in (by_env | {"overall": rows}).items()
    }
    usage = judge.usage if isinstance(judge, LLMJudge) else None
    return {
        "run": names,
        "judge": judge.describe(),
        "slack": slack,
        "episodes": len(chosen),
        "envs": {env_id: measured[env_id] for env_id in by_env},
        "overall": measured["overall"],
        "failures": dict(sorted(judge.failures.items())) if isinstance(judge, LLMJudge) else {},
        "tokens": usage.prompt_tokens + usage.completion_tokens if usage else 0,
        "cost": usage.cost if usage else 0.0,
        "commit": commit(),
        "versions": versions(),
    }


def judge_check(runs: Run | Sequence[Run], judge: Judge, **options: Any) -> dict[str, Any]:
    """`judge_check_async` for code that is not async."""
    return run_sync(lambda: judge_check_async(runs, judge, **options))


def _judgeable(run: Run, limit: int | None) -> list[Episode]:
    """Return the episodes that the real simulator can judge, at most `limit` of each environment."""
    found: list[Episode] = []
    counts: Counter[str] = Counter()
    for episode in run.episodes:
        if episode.stop_reason is StopReason.ERROR or episode.backend != "real" or not episode.turns:
            continue
        counts[episode.env_id] += 1
        if limit is None or counts[episode.env_id] <= limit:
            found.append(episode)
    return found


def _term(term: str, rows: Sequence[Row]) -> dict[str, Any]:
    known = [row for row in rows if row[1][term].ok]
    both = [row for row in known if row[2][term].ok]
    found: dict[str, Any] = {"judged": len(both), "errors": len(known) - len(both)}
    if term in _CLASSES:
        classes = [(_task(row), int(row[1][term].score or 0), int(row[2][term].score or 0)) for row in both]
        agreement, found["confusion"] = kappa(classes, _CLASSES[term], term)
        measures = {"accuracy": _share([(task, a == b) for task, a, b in classes], term), "kappa": agreement}
        if term == "e2e":
            measures["success_accuracy"] = _share([(task, (a > 0) == (b > 0)) for task, a, b in classes], term)
        return found | plain(measures)
    values = [(_task(row), row[1][term].value or 0.0, row[2][term].value or 0.0) for row in both]
    found["mean_difference"] = sum(b - a for _, a, b in values) / len(values) if values else None
    return found | plain({"rank_correlation": rank_correlation(values, term)})


def _task(row: Row) -> str:
    return f"{row[0].env_id} {row[0].task_id}"


def _share(agreed: Sequence[tuple[str, bool]], *seed: object) -> Interval:
    return rate(sums_by_task([(task, (float(yes), 1.0)) for task, yes in agreed], 2), 0, 1, *seed)
