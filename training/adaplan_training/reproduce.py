"""The paper's tables, made anew: a grid of runs and evaluations that goes on where it stopped.

Every cell is a folder. What is finished is kept, what was cut short goes on, what failed is tried again next time, and
a failure never stops the other cells.
"""

from __future__ import annotations

import dataclasses
import json
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from adaplan_envs.errors import ConfigError, check_name
from adaplan_evaluation import Run, evaluate, load_run
from adaplan_evaluation.judge_check import judge_check_async
from adaplan_evaluation.judges import load_judge
from adaplan_evaluation.loops import run_sync
from adaplan_evaluation.metrics import summarise
from adaplan_training.config import TrainConfig
from adaplan_training.demos import DemoConfig, demonstrate
from adaplan_training.metrics import read_metrics
from adaplan_training.recipe import load_recipe, to_dict
from adaplan_training.scales import SCALES
from adaplan_training.studies import PILOTRL, START, Row, Table, Training, find_table, frontier_rows
from adaplan_training.trainer import train
from adaplan_training.transcripts import write_transcripts

FORMATS = ("adaplan", "mpo", "naive", "react")
"""Agents whose ways of answering a model that is made here learns before all else."""

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class StudyConfig:
    """How much is made of a table.

    Attributes:
        scale: one of `SCALES`: ``mini`` (minutes a run on two cores; short mazes), ``tiny`` (hours), or ``paper``
            (its own settings, on GPUs).
        out: folder of everything; tables share their runs in it.
        seeds: of every training run.
        episodes: tasks of each environment in an evaluation; None for all.
        envs: of the evaluations; None for those of the scale.
        model: instead of the scale's own: a spec string, an instruct model to begin with.
        frontier: models for Tables 9 and 10.
        overrides: of every recipe, such as ``rollout.tasks=4``.
    """

    scale: str = "tiny"
    out: str = "runs/reproduce"
    seeds: Sequence[int] = (0, 1, 2)
    episodes: int | None = 50
    envs: str | None = None
    model: str | None = None
    frontier: Sequence[str] = ()
    overrides: Sequence[str] = ()

    def __post_init__(self) -> None:
        check_name("scale", self.scale, SCALES)
        if not self.seeds:
            raise ConfigError("seeds is empty; give at least one")


@dataclass(frozen=True, slots=True)
class Cells:
    """A row's results.

    Attributes:
        row: what it is.
        runs: a finished evaluation for each seed that has one.
        failures: of the others, a line each.
    """

    row: Row
    runs: tuple[Run, ...]
    failures: tuple[str, ...]

    @property
    def summary(self) -> dict[str, Any]:
        """The rates over all seeds, whose attempts count as repeats of a task."""
        episodes = [
            dataclasses.replace(episode, repeat=1000 * number + episode.repeat, turns=())
            for number, run in enumerate(self.runs)
            for episode in run.episodes
        ]
        return summarise(episodes)


class Study:
    """A grid of cells in a folder.

    Args:
        name: of the table, see `find_table`.
        config: how much.
        tell: is told in a line what happens now.

    Raises:
        ConfigError: no such table or scale, or the table needs frontier models.
    """

    def __init__(self, name: str, config: StudyConfig, tell: Tell = lambda text: None) -> None:
        self.table: Table = find_table(name)
        if name == "10" and not config.frontier:
            raise ConfigError("Table 10 measures judges: name some, such as --frontier openai:NAME")
        self.name, self.config, self.tell = name, config, tell
        self.scale = SCALES[config.scale]
        self.model = config.model or self.scale.models[self.table.second_model]
        label = "".join(letter if letter.isalnum() else "-" for letter in self.model.rpartition("/")[2])
        self.folder = Path(config.out) / config.scale / label
        self.rows = frontier_rows(tuple(config.frontier)) if name == "9" else self.table.rows
        if name in ("10", "figure3"):
            self.rows = (Row("PilotRL", PILOTRL),)

    def plan(self) -> list[str]:
        """Return the cells by name: those that are finished, and those that are to be made."""
        return [
            f"{'kept' if _finished(path) else 'to do'}: {path.relative_to(self.config.out)}"
            for path in dict.fromkeys(self._paths())
        ]

    def run(self) -> list[Cells]:
        """Make what is missing and return all rows. Failures are in `Cells.failures`, and tried again next time."""
        found = []
        for row in self.rows:
            runs, failures = [], []
            for seed in self.config.seeds:
                try:
                    runs.append(self._evaluated(row, seed))
                except Exception as error:
                    line = f"{row.label}, seed {seed}: {type(error).__name__}: {error}"
                    folder = self._evaluation(row, seed)
                    folder.mkdir(parents=True, exist_ok=True)
                    (folder / "failure.txt").write_text(traceback.format_exc(), encoding="utf-8")
                    failures.append(line.splitlines()[0])
                    self.tell(f"failed: {failures[-1]}")
            found.append(Cells(row, tuple(runs), tuple(failures)))
        return found

    def agreements(self, cells: Cells) -> list[dict[str, Any]]:
        """Return how far each frontier model's judgements of the first test run agree with the simulators'."""
        if not cells.runs:
            raise ConfigError("; ".join(cells.failures))
        run = cells.runs[0]
        found = []
        for spec in self.config.frontier:
            path = self.folder / "agreement" / f"{_slug(spec)}.json"
            if not path.exists():
                self.tell(f"judging by {spec}")
                result = run_sync(partial(_agreement, run, spec, self.folder / "agreement" / "cache"))
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(result, indent=1), encoding="utf-8")
            found.append({"spec": spec, **json.loads(path.read_text(encoding="utf-8"))})
        return found

    def metrics(self) -> list[list[dict[str, Any]]]:
        """Return the metrics of PilotRL's runs, one for each seed (Figure 3)."""
        if self._makes_start:
            self._start()
        return [read_metrics(self._trained(PILOTRL, seed) / "metrics.jsonl") for seed in self.config.seeds]

    def _paths(self) -> Iterator[Path]:
        if self._makes_start:
            yield self.folder / START
        for row in self.rows:
            for seed in self.config.seeds:
                for training in _needs(row.training):
                    yield self._home(training, seed)
                yield self._evaluation(row, seed)

    @property
    def _makes_start(self) -> bool:
        return self.model in self.scale.weights

    def _home(self, training: Training, seed: int) -> Path:
        return self.folder / f"seed-{seed}" / training.name

    def _evaluation(self, row: Row, seed: int) -> Path:
        if row.training is None:
            return self.folder / f"seed-{seed}" / f"untrained-{row.agent}" / "test"
        return self._home(row.training, seed) / "test"

    def _config(self, training: Training, seed: int) -> TrainConfig:
        overrides = [*training.overrides, *(f"{key}={self._spec(of, seed)}" for key, of in training.takes.items())]
        overrides += [f"seed={seed}", f"out={self._home(training, seed)}", *self.config.overrides]
        if training.recipe == "sft":
            overrides.append(f"data.files=[{self.folder / 'adaplan.jsonl'}]")
        return load_recipe(f"{self.config.scale}/{training.recipe}", overrides)

    def _spec(self, training: Training | str, seed: int) -> str:
        if isinstance(training, Training):
            return f"hf:{self._home(training, seed)}/checkpoints/last"
        return f"hf:{self.folder / START}/checkpoints/last" if self._makes_start else self.model

    def _evaluated(self, row: Row, seed: int) -> Run:
        if self._makes_start:
            self._start()
        if row.training is not None:
            self._trained(row.training, seed)
        folder = self._evaluation(row, seed)
        if not _finished(folder):
            self.tell(f"playing: {row.label}, seed {seed}")
            config = self._config(row.training or PILOTRL, seed)
            agent = config.agent.name if row.training else row.agent
            settings = _settings(config, agent)
            model = self._spec(row.training or START, seed)
            if config.agent.executor is not None and row.training is not None:
                model, settings["planner"] = config.agent.executor, model
            evaluate(
                agent,
                self.config.envs or self.scale.envs,
                model=model,
                agent_settings={
                    **settings,
                    "max_tokens": config.agent.turn_tokens,
                    "temperature": config.eval.temperature,
                },
                episodes=self.config.episodes,
                max_difficulty=config.rollout.max_difficulty,
                seed=seed,
                max_steps=config.rollout.max_steps,
                env_settings=config.rollout.settings,
                concurrency=config.rollout.concurrency,
                out=folder,
                resume=(folder / "episodes.jsonl").exists(),
                retry_errors=(folder / "episodes.jsonl").exists(),
            )
            _finish(folder)
        run = load_run(folder)
        played = run.results["config"]["episodes"]
        if played != self.config.episodes:
            raise ConfigError(f"{folder} was played with episodes={played}; delete it or choose another out")
        return run

    def _trained(self, training: Training, seed: int) -> Path:
        for other in _needs(training)[:-1]:
            self._trained(other, seed)
        if training.recipe == "sft":
            self._demos("adaplan")
        self._train(self._config(training, seed), f"{training.name}, seed {seed}")
        return self._home(training, seed)

    def _train(self, config: TrainConfig, label: str) -> None:
        folder = Path(config.out)
        record = folder / "config.yaml"
        if _finished(folder):
            if yaml.safe_load(record.read_text(encoding="utf-8")) != to_dict(config):
                raise ConfigError(f"{folder} holds a run with other settings; choose another out")
            return
        self.tell(f"training: {label}")
        train(config, resume=record.exists())
        _finish(folder)

    def _start(self) -> None:
        """Make the model that the rows begin with: random weights, then a little imitation."""
        from adaplan_training.make_model import make_model

        folder = self.folder / "model"
        files = [str(self._demos(agent)) for agent in FORMATS]
        config = load_recipe(
            f"{self.config.scale}/{START}",
            [
                f"model.spec=hf:{folder}",
                f"data.files=[{', '.join(files)}]",
                f"out={self.folder / START}",
                *self.config.overrides,
            ],
        )
        if not (folder / "config.json").exists():
            self.tell(f"making a model of {self.model} weights")
            make_model(
                folder,
                self.scale.weights[self.model],
                vocabulary=self.scale.vocabulary,
                envs=config.rollout.envs,
            )
        self._train(config, START)

    def _demos(self, agent: str) -> Path:
        """Write an agent's demonstrations, where they are not there yet, and return the file."""
        path = self.folder / f"{agent}.jsonl"
        if not path.exists():
            self.tell(f"demonstrations of {agent}")
            recipe = load_recipe(f"{self.config.scale}/pilotrl", self.config.overrides)
            rollout = recipe.rollout
            config = DemoConfig(
                agent,
                _settings(recipe, agent),
                envs=rollout.envs,
                env_settings=rollout.settings,
                tasks=None if rollout.tasks is None else self.scale.demos * rollout.tasks,
                max_difficulty=rollout.max_difficulty,
            )

            async def collect() -> list[Any]:
                return [each async for each in demonstrate(config)]

            path.parent.mkdir(parents=True, exist_ok=True)
            write_transcripts(path, run_sync(collect))
        return path


def _settings(config: TrainConfig, agent: str) -> dict[str, Any]:
    """Return the settings of an agent: the recipe's for its own, for others the kind of prompts."""
    own = config.agent.settings
    if agent == config.agent.name:
        return dict(own)
    return {"prompts": own["prompts"]} if "prompts" in own else {}


def _needs(training: Training | None) -> list[Training]:
    """Return what must be trained, in order, the training itself last."""
    if training is None:
        return []
    others = [each for of in training.takes.values() if isinstance(of, Training) for each in _needs(of)]
    return [*others, training]


async def _agreement(run: Run, spec: str, cache: Path) -> dict[str, Any]:
    judge = load_judge(
        spec,
        env_settings=run.results["config"].get("env_settings"),
        cache=cache if spec.startswith("openai:") else None,  # models that run here take none
    )
    try:
        return await judge_check_async(run, judge)
    finally:
        await judge.aclose()


def success_by_seed(runs: Sequence[Run]) -> list[float]:
    """Return each run's mean success over its environments."""
    values = [run.results["summary"]["overall"]["success_rate"]["value"] for run in runs]
    return [value for value in values if value is not None]


def errors_of(runs: Sequence[Run]) -> int:
    """Return how many episodes ended as error, which says nothing of the agent."""
    return sum(int(run.results["summary"]["overall"]["errors"]) for run in runs)


def _slug(text: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in text)


def _finished(folder: Path) -> bool:
    return (folder / "finished").exists()


def _finish(folder: Path) -> None:
    (folder / "finished").write_text("", encoding="utf-8")
    (folder / "failure.txt").unlink(missing_ok=True)
