"""What must hold in the stored trajectories of any run: Eq. 1, and rewards that are those that were logged."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from adaplan_envs.errors import ConfigError
from adaplan_evaluation.judges import Judge
from adaplan_evaluation.loops import run_sync
from adaplan_evaluation.store import EPISODES, read_episodes
from adaplan_evaluation.types import Episode
from adaplan_training.config import TrainConfig
from adaplan_training.metrics import describe_groups, read_metrics
from adaplan_training.recipe import load_recipe
from adaplan_training.rewards import Scorer
from adaplan_training.rollout import Group, Rollout, TaskRef

_STEP = "step-"


@dataclass(slots=True)
class RunCheck:
    """What was checked, and what does not hold.

    Attributes:
        files: with trajectories.
        episodes: in them.
        revisions: plans that were compared with the one before.
        values: logged figures that were computed anew.
        wrong: a sentence for everything that does not hold; empty where all is well.
        notes: what could not be checked, and why.
    """

    files: int = 0
    episodes: int = 0
    revisions: int = 0
    values: int = 0
    wrong: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def check_run(folder: str | Path, *, judge: Judge | None = None, rewards: bool = True) -> RunCheck:
    """Check every trajectory under `folder`: of a training run, an evaluation, or many of them.

    Args:
        folder: is searched at every depth.
        judge: instead of the one that a training run's recipe names; a model's judgements cost money again.
        rewards: whether to judge the stored rollouts anew.

    Raises:
        ConfigError: there are no trajectories, or a file is damaged.
    """
    check = RunCheck()
    root = Path(folder)
    for path in sorted({*root.rglob(EPISODES), *root.rglob(f"rollouts/{_STEP}*.jsonl")}):
        episodes = read_episodes(path) if path.name == EPISODES else list(_rollouts(path))
        check.files += 1
        check.episodes += len(episodes)
        for episode in episodes:
            check.revisions += max(0, sum(turn.plan is not None for turn in episode.turns) - 1)
            check.wrong += [
                f"{path}, {episode.task_id}, repeat {episode.repeat}: {text}" for text in broken_steps(episode)
            ]
    if not check.files:
        raise ConfigError(f"no trajectories in {root}; a training run keeps them with log.episodes_every")
    if rewards:
        for path in sorted({each.parent.parent for each in root.rglob(f"rollouts/{_STEP}*.jsonl")}):
            run_sync(partial(_check_rewards, path, check, judge))
    return check


def broken_steps(episode: Episode) -> list[str]:
    """Return where Eq. 1 does not hold: a step that was played or was being played differs in a later plan."""
    found = []
    done, before = 0, None
    for number, turn in enumerate(episode.turns, 1):
        if turn.plan is None:
            continue
        if before is not None:
            done = min(done + 1, len(before))
            changed = [n for n in range(1, done + 1) if tuple(turn.plan[n - 1 : n]) != tuple(before[n - 1 : n])]
            if changed:
                found.append(f"turn {number} changes step {changed[0]}, which was history (Eq. 1)")
        before = turn.plan
    return found


async def _check_rewards(folder: Path, check: RunCheck, judge: Judge | None) -> None:
    """Compare what the stored rollouts of a run are worth with its metrics."""
    config = load_recipe(folder / "config.yaml")
    logged = {line["step"]: line for line in read_metrics(folder / "metrics.jsonl")}
    scorer = Scorer(config, judge)
    for path in sorted(folder.glob(f"rollouts/{_STEP}*.jsonl")):
        step = int(path.stem.removeprefix(_STEP))
        if step not in logged:
            check.notes.append(f"{path}: the step was not logged, the run was stopped in it")
            continue
        stages = [stage for stage in config.stages if stage.name == logged[step]["stage"]]
        if any(stage.rewards != stages[0].rewards for stage in stages):
            check.notes.append(f"{path}: several stages are called {stages[0].name!r}; give them names of their own")
            continue
        found = await _worth(list(_rollouts(path)), config, stages[0].rewards, scorer)
        for name, value in found.items():
            if name == "reward":  # the penalty goes by tokens, which are not stored: its mean is taken as it was logged
                value += logged[step].get("reward/overlong", 0.0)
            check.values += 1
            if not _same(value, logged[step].get(name)):
                check.wrong.append(f"{path}: {name} is {value}, logged as {logged[step].get(name)}")


async def _worth(
    episodes: Sequence[Episode], config: TrainConfig, weights: Mapping[str, float], scorer: Scorer
) -> Mapping[str, Any]:
    size = config.rollout.group_size
    groups = [episodes[at : at + size] for at in range(0, len(episodes), size)]
    scored = [
        await scorer.score(
            Group(TaskRef(members[0].env_id, members[0].task_id), tuple(Rollout(episode, ()) for episode in members)),
            weights,
            config.reward.overlong_buffer,  # with no tokens at all, just no penalty
        )
        for members in groups
    ]
    wanted = ("reward", "unjudged", "success")
    return {key: value for key, value in describe_groups(scored).items() if key.partition("/")[0] in wanted}


def _rollouts(path: Path) -> Iterable[Episode]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            yield Episode.from_json(line)
        except ValueError as error:
            raise ConfigError(f"{path}, line {number} is damaged: {error}") from None


def _same(found: float, logged: float | None) -> bool:
    if logged is None or math.isnan(found):  # JSON has no NaN
        return logged is None and math.isnan(found)
    return math.isclose(found, logged, rel_tol=1e-9, abs_tol=1e-9)
