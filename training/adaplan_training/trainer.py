"""A training run: steps, evaluation, checkpoints, and going on where it was stopped."""

from __future__ import annotations

import asyncio
import shutil
import signal
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
import yaml

from adaplan_agents.types import Agent
from adaplan_envs.errors import ConfigError, OutputError
from adaplan_evaluation import evaluate_async
from adaplan_evaluation.judges import Judge
from adaplan_evaluation.loops import run_sync
from adaplan_evaluation.provenance import commit, versions
from adaplan_training.checkpoint import Checkpoints
from adaplan_training.config import Stage, TrainConfig
from adaplan_training.grpo import GRPO
from adaplan_training.metrics import MetricsLog, read_metrics, short
from adaplan_training.optimise import NonFiniteError, Optimiser, learning_rate
from adaplan_training.parallel import join
from adaplan_training.policy import Policy
from adaplan_training.recipe import to_dict
from adaplan_training.rollout import Group
from adaplan_training.sft import SFT
from adaplan_training.stages import Players, schedule

T = TypeVar("T")
OnStep = Callable[[int, int, dict[str, Any]], None]
"""Called after each step with its number (from 1; 0 for the evaluation before the first), the number of all steps, and
its metrics."""


class Stopped(KeyboardInterrupt):
    """SIGTERM or Ctrl-C ended the run; its checkpoint is written."""


@dataclass(frozen=True, slots=True)
class Result:
    """A finished run.

    Attributes:
        path: its folder. ``checkpoints/last`` and ``checkpoints/best`` load as ``hf:...``.
        steps: how many there were.
        best: the highest mean success of an evaluation, or None without any.
    """

    path: Path
    steps: int
    best: float | None

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The metrics of every step, as in ``metrics.jsonl``."""
        return read_metrics(self.path / "metrics.jsonl")


def train(config: TrainConfig, *, resume: bool = False, on_step: OnStep | None = None) -> Result:
    """Train as `config` says.

    Args:
        config: the run, see `load_recipe`.
        resume: go on from the last checkpoint in ``config.out``. Everything must be as it was; the rest of the run then
            has the same numbers as if it had never been stopped (on the same machine, without a deadline).
        on_step: is told of every step.

    Raises:
        ConfigError: a setting that means nothing, a folder that holds a run already, or another run than was begun.
        TrainingError: NaN or infinite loss (the batch is saved in the folder), no memory left, or every episode failed.
        OutputError: the folder can't be written; earlier checkpoints are intact.
        Stopped: SIGTERM or Ctrl-C; the checkpoint is written.
    """
    return Trainer(config, on_step=on_step).run(resume)


class Trainer:
    """One run; see `train`.

    Args:
        config: the run.
        policy: instead of the one that ``config.model`` names.
        judge: instead of the one that ``config.reward.judge`` names.
        on_step: is told of every step.
    """

    def __init__(
        self,
        config: TrainConfig,
        *,
        policy: Policy | None = None,
        judge: Judge | None = None,
        on_step: OnStep | None = None,
    ) -> None:
        self.world = join()
        self.config, self.on_step = config, on_step if self.world.leads else None
        self.folder = Path(config.out)
        torch.manual_seed(config.seed)  # adapters begin at random; nothing else in training is left to chance
        self.policy = policy or Policy.load(
            config.model, window=config.agent.episode_tokens, reference=config.loss.kl_weight > 0
        )
        self.optimiser = Optimiser(self.policy.parameters(), config.optim, self.policy.tables, self.world)
        self.checkpoints = Checkpoints(self.folder / "checkpoints")
        self.learner: GRPO | SFT
        if config.algorithm == "grpo":
            self.learner = GRPO(config, self.policy, self.optimiser, judge)
        else:
            from adaplan_training.sft_data import load_sequences

            data = load_sequences(config.data.files, self.policy.chat, config.stages[0].roles)
            self.learner = SFT(config, self.policy, self.optimiser, data)
        self.players = Players(config, self.policy.chat)
        if config.algorithm == "grpo":
            for stage in config.stages:  # settings that make no agent are told of now, not hours later
                self.players.agent(stage)
        self.schedule = schedule(config.stages, self.learner.steps_of)
        """The stage of each step."""
        self.done = 0
        """Steps that were made."""
        self.best: float | None = None
        self._unwritten: dict[str, Any] | None = {}
        """Metrics of the last step that are not written yet, since its evaluation has not ended. A run begins so: with
        the evaluation of what is there before the first step."""
        self._stop = False
        self._waiting: asyncio.Task[Any] | None = None

    def agent(self, stage: Stage | None = None) -> Agent:
        """Return the agent of a stage's rollouts; that of evaluation for None."""
        return self.players.agent(stage)

    def run(self, resume: bool = False) -> Result:
        """Run to the end; see `train`."""
        self._open(resume)
        try:
            run_sync(self._run, on_interrupt=self._ask_to_stop)
        finally:
            self.learner.close()
        if self._stop and self.done < len(self.schedule):
            raise Stopped
        return Result(self.folder, self.done, self.best)

    def _open(self, resume: bool) -> None:
        if self.world.leads:
            self._prepare(resume)
        self.world.wait()
        if resume and self.checkpoints.exist:  # else it was killed before its first one: it begins anew
            state = self.checkpoints.load(self.policy, self.optimiser)
            self.done, self.best, self._unwritten = state["step"], state["best"], state["unwritten"]

    def _prepare(self, resume: bool) -> None:
        """See to the folder: a new run's settings are written down, an old one's must be the same."""
        path = self.folder / "config.yaml"
        record = to_dict(self.config)
        if resume:
            if not path.exists():
                raise ConfigError(f"no run in {self.folder}: start it without --resume")
            _check_same(yaml.safe_load(path.read_text(encoding="utf-8")), record)
            return
        if path.exists():
            raise ConfigError(
                f"{self.folder} holds a run: --resume (resume=True) goes on with it, or choose another out="
            )
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            origin = yaml.safe_dump({"commit": commit(), "versions": versions()}, sort_keys=False)
            (self.folder / "origin.yaml").write_text(origin, encoding="utf-8")
            path.write_text(yaml.safe_dump(record, sort_keys=False), encoding="utf-8")
        except OSError as error:
            raise OutputError(f"can't write {self.folder}: {error.strerror}") from error

    async def _run(self) -> None:
        written = self.done if self._unwritten is None else self.done - 1
        log = MetricsLog(self.folder, self.config.log, to_dict(self.config), written) if self.world.leads else None
        try:
            with self._stoppable():
                if self._unwritten is not None:
                    await self._after_step(self._unwritten, log)
                while self.done < len(self.schedule) and not self._stop:
                    await self._step(log)
        finally:
            if log is not None:
                log.close()
            await self.players.aclose()
            if isinstance(self.learner, GRPO):
                await self.learner.scorer.aclose()

    async def _step(self, log: MetricsLog | None) -> None:
        stage, step = self.schedule[self.done], self.done
        lr = learning_rate(self.config.optim, step, len(self.schedule))
        groups: list[Group] = []
        try:
            if isinstance(self.learner, GRPO):
                learner = self.learner
                groups = await self._interruptible(learner.sample(self.agent(stage), stage, step))
                metrics = await learner.step(groups, stage, step, lr)
            else:
                metrics = self.learner.step(step, lr)
                await asyncio.sleep(0)  # the moment in which a signal is heard
        except asyncio.CancelledError:
            if not self._stop:
                raise
            self._save()  # the weights are still those of the step before
            return
        except NonFiniteError as error:
            raise self._saved(error, step + 1) from None
        self.done += 1
        every = self.config.log.episodes_every
        if groups and every and self.done % every == 0:
            self._write_episodes(self.world.gather(groups))
        await self._after_step({"stage": stage.name, **metrics}, log)

    async def _after_step(self, metrics: dict[str, Any], log: MetricsLog | None) -> None:
        """Evaluate, write and save where it is time to."""
        self._unwritten = metrics
        last, best = self.done == len(self.schedule), False
        every = self.config.eval.every
        if every and (last or self.done % every == 0):
            began = time.perf_counter()
            try:
                found = await self._interruptible(self._evaluate())
            except asyncio.CancelledError:
                if not self._stop:
                    raise
                self._save()  # a resumed run begins with this evaluation
                return
            best = self.best is None or found["eval/success"] > self.best
            self.best = found["eval/success"] if best else self.best
            metrics = {**metrics, **found, "time/evaluation": time.perf_counter() - began}
        if log is not None:
            log.write(self.done, metrics)
        self._unwritten = None
        if self.on_step is not None:
            self.on_step(self.done, len(self.schedule), metrics)
        if last or best or self._stop or self.done % self.config.log.checkpoint_every == 0:
            self._save(best)

    async def _evaluate(self) -> dict[str, float]:
        """Return the policy's success on tasks that it does not learn from; the first process plays them all."""
        return self.world.tell(await self._play_test_tasks() if self.world.leads else {})

    async def _play_test_tasks(self) -> dict[str, float]:
        config = self.config
        out = self.folder / "eval" / f"step-{self.done:06d}"
        shutil.rmtree(out, ignore_errors=True)  # of a run that was killed in it
        run = await evaluate_async(
            self.agent(),
            config.eval.envs or config.rollout.envs,
            split=config.eval.split,
            episodes=config.eval.episodes,
            repeats=config.eval.repeats,
            max_difficulty=config.rollout.max_difficulty,
            seed=config.seed,
            max_steps=config.rollout.max_steps,
            env_settings=config.rollout.settings,
            deadline=config.rollout.deadline,
            concurrency=config.rollout.concurrency,
            out=out,
        )
        summary = run.results["summary"]
        rates = {f"eval/success/{short(env)}": each["success_rate"]["value"] for env, each in summary["envs"].items()}
        found = {"eval/success": summary["overall"]["success_rate"]["value"], **rates}
        return {name: 0.0 if value is None else value for name, value in found.items()}

    def _save(self, best: bool = False) -> None:
        state = {"step": self.done, "best": self.best, "unwritten": self._unwritten}
        self.optimiser.collect()
        if self.world.leads:
            self.checkpoints.save(self.policy, self.optimiser, state, best=best)
        self.world.wait()

    def _write_episodes(self, groups: list[Group]) -> None:
        if not self.world.leads:
            return
        path = self.folder / "rollouts" / f"step-{self.done:06d}.jsonl"
        try:
            path.parent.mkdir(exist_ok=True)
            lines = [rollout.episode.to_json() + "\n" for group in groups for rollout in group.rollouts]
            path.write_text("".join(lines), encoding="utf-8")
        except OSError as error:
            raise OutputError(f"can't write {path}: {error.strerror}") from error

    def _saved(self, error: NonFiniteError, step: int) -> NonFiniteError:
        """Return the error with the place where its batch is kept."""
        of = f"-process-{self.world.rank}" if self.world.size > 1 else ""
        path = self.folder / f"nonfinite-step-{step:06d}{of}.pt"
        torch.save([{name: getattr(batch, name) for name in batch.__slots__} for batch in error.batches], path)
        return NonFiniteError(
            f"step {step}: {error}. Its batch is saved in {path}. A lower optim.lr, optim.clip=0.5 or "
            "model.precision=float32 may mend it",
            error.batches,
        )

    async def _interruptible(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work`, which a signal cancels."""
        self._waiting = asyncio.ensure_future(work)
        try:
            found: T = await self._waiting
            return found
        finally:
            self._waiting = None

    def _ask_to_stop(self) -> None:
        self._stop = True
        if self._waiting is not None:
            self._waiting.cancel()

    @contextmanager
    def _stoppable(self) -> Iterator[None]:
        """Let SIGTERM and the first Ctrl-C end the run with a checkpoint; the second Ctrl-C ends it at once.

        Of several processes, some would hear it in one step and some in the next: those end at once.
        """
        if self.world.size > 1:
            yield
            return
        loop = asyncio.get_running_loop()

        def stop() -> None:
            loop.remove_signal_handler(signal.SIGINT)
            self._ask_to_stop()

        try:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, stop)
        except (NotImplementedError, RuntimeError, ValueError):  # Windows, or not in the main thread
            pass
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)


def _check_same(old: Any, new: Any, path: str = "") -> None:
    """Raise if the settings of the run that is resumed are others than those that it was begun with."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*new, *(key for key in old if key not in new)]:
            if f"{path}{key}" != "out":
                _check_same(old.get(key), new.get(key), f"{path}{key}.")
    elif old != new:
        raise ConfigError(
            f"can't resume, the run was begun otherwise: {path[:-1]} was {old!r} and is {new!r} now. Use the same "
            "settings or another out="
        )
