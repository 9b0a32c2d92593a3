"""What a step says of itself: numbers by name, and where they are written."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from typing import Any

from adaplan_envs.errors import OutputError, require
from adaplan_envs.types import StopReason
from adaplan_training.config import LogConfig
from adaplan_training.rewards import ScoredGroup


def describe_groups(scored: Sequence[ScoredGroup]) -> dict[str, float]:
    """Return the metrics of what was played.

    ``reward`` and ``reward/TERM`` (means over the members that count), ``reward/overlong`` (where there is a penalty),
    ``success`` and ``success/ENV``, ``turns``, ``tokens/episode``, ``stop/REASON`` (shares of all episodes),
    ``groups/dead``, ``episodes``, ``episodes/lost``, ``unjudged/TERM`` (members that a term could not judge).
    """
    rollouts = [rollout for group in scored for rollout in group.rollouts]
    every = [rollout.episode for group in scored for rollout in group.group.rollouts]
    metrics: dict[str, float] = {
        "reward": _mean([reward for group in scored for reward in group.rewards]),
        "success": _mean([rollout.episode.success for rollout in rollouts]),
        "turns": _mean([rollout.episode.steps for rollout in rollouts]),
        "tokens/episode": _mean([sum(map(len, rollout.sequences)) for rollout in rollouts]),
        "groups/dead": sum(group.dead for group in scored),
        "episodes": len(every),
        "episodes/lost": len(every) - len(rollouts),
    }
    for name in scored[0].terms:
        values = [value for group in scored for value in group.terms[name]]
        judged = [value for value in values if value is not None]
        metrics[f"reward/{name}"] = _mean(judged)
        if len(judged) < len(values):
            metrics[f"unjudged/{name}"] = len(values) - len(judged)
    if any(any(group.penalties) for group in scored):
        metrics["reward/overlong"] = _mean([penalty for group in scored for penalty in group.penalties])
    by_env = defaultdict(list)
    for rollout in rollouts:
        by_env[rollout.episode.env_id].append(rollout.episode.success)
    metrics |= {f"success/{short(env_id)}": fmean(by_env[env_id]) for env_id in sorted(by_env)}
    reasons = Counter(episode.stop_reason for episode in every)
    return metrics | {f"stop/{reason}": reasons[reason] / len(every) for reason in StopReason if reasons[reason]}


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else math.nan


def short(env_id: str) -> str:
    """Return ``maze`` for ``AdaPlan/Maze-v0``."""
    return env_id.rpartition("/")[2].rpartition("-v")[0].lower() or env_id


class MetricsLog:
    """Writes ``metrics.jsonl``, a line for each step, and what else the recipe asks for.

    Args:
        folder: of the run.
        config: TensorBoard, Weights & Biases.
        record: the run's settings, for Weights & Biases.
        after: the step that the run goes on after; later lines, of steps that are done again, are dropped.

    Raises:
        MissingExtraError: what the recipe asks for is not installed.
        OutputError: the folder can't be written.
    """

    def __init__(self, folder: Path, config: LogConfig, record: Mapping[str, Any], after: int = 0) -> None:
        self.path = folder / "metrics.jsonl"
        try:
            kept = [line for line in read_metrics(self.path) if line["step"] <= after]
            temporary = self.path.with_suffix(".part")
            temporary.write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")
            temporary.replace(self.path)
            self._file = self.path.open("a", encoding="utf-8")
        except OSError as error:
            raise OutputError(f"can't write {self.path}: {error.strerror}") from error
        self._board: Any = None
        if config.tensorboard:
            require("tensorboard", "train")
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=after + 1)
        self._wandb: Any = None
        if config.wandb:
            wandb = require("wandb", "wandb")
            self._wandb = wandb.init(
                project=config.wandb, id=folder.name, name=folder.name, config=dict(record), resume="allow"
            )

    def write(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Write the metrics of a step.

        Raises:
            OutputError: the disk is full, say.
        """
        try:
            self._file.write(
                json.dumps({"step": step, **{key: _finite(value) for key, value in metrics.items()}}) + "\n"
            )
            self._file.flush()
        except OSError as error:
            raise OutputError(f"can't write {self.path}: {error.strerror}") from error
        numbers = {key: value for key, value in metrics.items() if isinstance(value, (int, float))}
        if self._board is not None:
            for key, value in numbers.items():
                self._board.add_scalar(key, value, step)
        if self._wandb is not None:
            self._wandb.log(numbers, step=step)

    def close(self) -> None:
        """Finish writing."""
        self._file.close()
        if self._board is not None:
            self._board.close()
        if self._wandb is not None:
            self._wandb.finish()


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value  # JSON knows no NaN


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a ``metrics.jsonl``; a last one that a kill cut short is left out."""
    lines = []
    with suppress(FileNotFoundError):
        for line in path.read_text(encoding="utf-8").splitlines():
            with suppress(ValueError):
                lines.append(json.loads(line))
    return lines
