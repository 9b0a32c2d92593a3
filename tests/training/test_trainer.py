"""Runs: their files, being killed and going on, and everything that may go wrong."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from adaplan_agents.models import load_model
from adaplan_envs.cli import main
from adaplan_envs.errors import AdaPlanError, ConfigError, OutputError, TrainingError
from adaplan_evaluation.types import Episode
from adaplan_training import trainer as trainer_module
from adaplan_training.commands import TRAIN
from adaplan_training.config import OptimConfig, TrainConfig
from adaplan_training.dryrun import describe_run
from adaplan_training.metrics import read_metrics
from adaplan_training.muon import Muon, orthogonal
from adaplan_training.optimise import NonFiniteError, Optimiser, explained, learning_rate
from adaplan_training.policy import Policy
from adaplan_training.recipe import from_dict, load_recipe, to_dict
from adaplan_training.sequences import cut
from adaplan_training.trainer import Stopped, Trainer, train
from tests.conftest import ROOT
from tests.training.test_policy import random_sequences
from tests.training.tiny import BANDIT, save_tiny


def recipe(folder: Path, **parts: Any) -> TrainConfig:
    """A short run on the bandit; `parts` replace its parts."""
    if not (folder / "model").exists():
        save_tiny(folder / "model")
    record: dict[str, Any] = {
        "model": {"spec": f"hf:{folder / 'model'}", "device": "cpu"},
        "agent": {"name": "tests.training.tiny:Terse", "turn_tokens": 1, "episode_tokens": 64},
        "rollout": {"envs": BANDIT, "groups": 3, "group_size": 4},
        "stages": [{"name": "only", "steps": 5, "roles": ["executor"], "rewards": {"score": 1, "success": 0}}],
        "optim": {"lr": 0.01, "schedule": "cosine", "warmup": 0.3},
        "eval": {"every": 2, "episodes": 4},
        "log": {"tensorboard": False, "checkpoint_every": 2, "episodes_every": 2},
        "out": str(folder / "run"),
    }
    for name, values in parts.items():
        record[name] = {**record[name], **values} if isinstance(values, dict) and name in record else values
    return from_dict(record)


def numbers(folder: Path) -> list[dict[str, Any]]:
    """The metrics without what depends on the clock."""
    lines = read_metrics(folder / "metrics.jsonl")
    return [{key: value for key, value in line.items() if not key.startswith("time/")} for line in lines]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return dict(load_file(folder / "checkpoints" / "last" / "model.safetensors"))


def test_a_run_leaves_metrics_checkpoints_evaluations_and_episodes(tmp_path: Path) -> None:
    config = recipe(tmp_path, log={"tensorboard": True})
    seen: list[int] = []
    result = train(config, on_step=lambda step, steps, metrics: seen.append(step))
    assert seen == list(range(6))
    lines = result.metrics
    assert [line["step"] for line in lines] == list(range(6))
    assert [line["step"] for line in lines if "eval/success" in line] == [0, 2, 4, 5]
    assert {"reward", "reward/score", "reward/success", "entropy", "grad_norm", "time/sampling"} <= set(lines[1])
    assert load_recipe(result.path / "config.yaml") == config
    checkpoints = result.path / "checkpoints"
    assert (checkpoints / "last").resolve().name == "step-000005"
    assert {path.name for path in checkpoints.iterdir()} <= {
        "last",
        "best",
        "step-000005",
        "step-000000",
        "step-000002",
    }
    assert load_model(f"hf:{checkpoints / 'best'}", device="cpu")
    assert (result.path / "eval" / "step-000004" / "episodes.jsonl").exists()
    assert list((result.path / "tensorboard").iterdir())
    stored = (result.path / "rollouts" / "step-000002.jsonl").read_text().splitlines()
    scores = [Episode.from_json(line).score for line in stored]
    assert sum(scores) / len(scores) == pytest.approx(lines[2]["reward/score"])


@pytest.mark.slow  # starts the process of W&B
def test_weights_and_biases_gets_every_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.setenv("WANDB_SILENT", "true")
    train(recipe(tmp_path, log={"wandb": "mazes"}, eval={"every": 0}))
    (stored,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    assert b"grad_norm" in stored.read_bytes()


async def test_a_notebook_whose_loop_is_running_can_train(tmp_path: Path) -> None:
    inside = train(recipe(tmp_path, out=str(tmp_path / "inside")))
    outside = await asyncio.to_thread(train, recipe(tmp_path, out=str(tmp_path / "outside")))
    assert inside.steps == 5
    assert numbers(inside.path) == numbers(outside.path)
    assert "trained: executor" in str(describe_run(Trainer(recipe(tmp_path))))


@pytest.mark.parametrize(("lora_rank", "name"), [(0, "adamw"), (4, "adamw"), (0, "muon")])
def test_a_run_that_broke_off_goes_on_to_the_same_numbers(lora_rank: int, name: str, tmp_path: Path) -> None:
    parts = {"model": {"lora_rank": lora_rank}, "optim": {"name": name}}
    whole = train(recipe(tmp_path, **parts, out=str(tmp_path / "whole")))
    config = recipe(tmp_path, **parts)

    def crash(step: int, steps: int, metrics: Any) -> None:
        if step == 3:
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        train(config, on_step=crash)
    result = train(config, resume=True)
    assert numbers(result.path) == numbers(whole.path)
    if not lora_rank:
        for name, tensor in weights(whole.path).items():
            assert torch.equal(weights(result.path)[name], tensor)


@pytest.mark.slow
@pytest.mark.parametrize("step", [0, 3])
def test_a_run_that_was_killed_goes_on_to_the_same_numbers(step: int, tmp_path: Path) -> None:
    whole = train(recipe(tmp_path, out=str(tmp_path / "whole")))
    config = recipe(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(to_dict(config)))
    code = (
        "import json, os, signal, sys, tests.training.tiny\n"
        "from adaplan_training.recipe import from_dict\n"
        "from adaplan_training.trainer import train\n"
        f"kill = lambda step, *_: step == {step} and os.kill(os.getpid(), signal.SIGKILL)\n"
        "train(from_dict(json.load(open(sys.argv[1]))), on_step=kill)\n"
    )
    paths = [str(ROOT), *(str(ROOT / part) for part in ("agents", "evaluation", "training"))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": str(torch.get_num_threads())}
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "config.json")], cwd=ROOT, env=environment)
    assert done.returncode == -signal.SIGKILL
    result = train(config, resume=True)
    assert numbers(result.path) == numbers(whole.path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_run_with_a_checkpoint(number: signal.Signals, tmp_path: Path) -> None:
    whole = train(recipe(tmp_path, out=str(tmp_path / "whole"), log={"checkpoint_every": 100}, eval={"every": 0}))
    config = recipe(tmp_path, log={"checkpoint_every": 100}, eval={"every": 0})

    def send(step: int, steps: int, metrics: Any) -> None:
        if step == 3:
            os.kill(os.getpid(), number)

    with pytest.raises(Stopped):
        train(config, on_step=send)
    assert (tmp_path / "run" / "checkpoints" / "last").resolve().name == "step-000003"
    assert numbers(train(config, resume=True).path) == numbers(whole.path)


def test_a_signal_in_an_evaluation_has_it_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = train(recipe(tmp_path, out=str(tmp_path / "whole")))
    config = recipe(tmp_path)
    evaluate = trainer_module.evaluate_async
    calls: list[int] = []

    async def interrupted(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return await evaluate(*args, **kwargs)

    monkeypatch.setattr(trainer_module, "evaluate_async", interrupted)
    with pytest.raises(Stopped):
        train(config)
    assert [line["step"] for line in numbers(tmp_path / "run")] == [0, 1]
    assert numbers(train(config, resume=True).path) == numbers(whole.path)


def test_a_folder_is_never_overwritten_and_never_resumed_with_other_settings(tmp_path: Path) -> None:
    config = recipe(tmp_path, stages=[{"steps": 1, "rewards": {"score": 1}}], eval={"every": 0})
    with pytest.raises(ConfigError, match="without --resume"):
        train(config, resume=True)
    train(config)
    with pytest.raises(ConfigError, match="holds a run"):
        train(config)
    other = recipe(tmp_path, stages=[{"steps": 1, "rewards": {"score": 1}}], eval={"every": 0}, optim={"lr": 0.02})
    with pytest.raises(ConfigError, match=r"optim\.lr was 0\.01 and is 0\.02"):
        train(other, resume=True)


def test_a_loss_that_is_no_number_stops_the_run_and_keeps_the_batch(tmp_path: Path) -> None:
    config = recipe(tmp_path, eval={"every": 0}, optim={"lr": 1e30, "schedule": "constant", "warmup": 0.0})
    with pytest.raises(NonFiniteError, match="nonfinite-step") as caught:
        train(config)
    (path,) = (tmp_path / "run").glob("nonfinite-step-*.pt")
    saved = torch.load(path, weights_only=True)
    assert saved[0]["tokens_BT"].shape == saved[0]["mask_BT"].shape
    assert str(path) in str(caught.value)


def test_a_full_disk_loses_no_earlier_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = recipe(tmp_path, eval={"every": 0})
    save, calls = torch.save, []

    def full(record: Any, path: Any) -> None:
        calls.append(path)
        if len(calls) == 2:
            Path(path).write_bytes(b"half of it")
            raise OSError(errno.ENOSPC, "No space left on device")
        save(record, path)

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(OutputError, match="before it are intact"):
        train(config)
    checkpoints = tmp_path / "run" / "checkpoints"
    assert sorted(path.name for path in checkpoints.iterdir()) == ["last", "step-000000"] or sorted(
        path.name for path in checkpoints.iterdir()
    ) == ["last", "step-000002"]
    monkeypatch.undo()
    whole = train(recipe(tmp_path, out=str(tmp_path / "whole"), eval={"every": 0}))
    assert numbers(train(config, resume=True).path) == numbers(whole.path)


def test_a_step_in_which_every_episode_failed_stops_the_run(tmp_path: Path) -> None:
    config = recipe(tmp_path, agent={"name": "tests.training.test_trainer:Broken"}, eval={"every": 0})
    with pytest.raises(TrainingError, match="ZeroDivisionError: on purpose"):
        train(config)


class Broken(trainer_module.Agent):
    """Fails in every episode."""

    name = "broken"

    def __init__(self, model: Any, **settings: Any) -> None: ...

    def start(self, briefing: Any) -> Any:
        raise ZeroDivisionError("on purpose")


def test_a_lack_of_memory_names_the_knobs() -> None:
    (batch,) = cut(random_sequences(2), 1000)
    for error in (
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
    ):
        found = explained(error, batch)
        assert isinstance(found, TrainingError)
        assert "optim.batch_tokens" in str(found)
    other = RuntimeError("shapes")
    assert explained(other, batch) is other


def test_the_learning_rate_by_hand() -> None:
    cosine = OptimConfig(lr=1.0, schedule="cosine", warmup=0.2)
    rates = [learning_rate(cosine, step, 10) for step in range(10)]
    assert rates[:3] == pytest.approx([1 / 3, 2 / 3, 1.0])
    assert rates[6] == pytest.approx(0.5)
    assert 0 < rates[-1] < 0.1
    assert all(one > two for one, two in pairwise(rates[2:]))
    assert learning_rate(OptimConfig(lr=1.0), 0, 10) == 1.0


def test_only_matrices_decay() -> None:
    layer = torch.nn.Linear(3, 3)
    optimiser = Optimiser(layer.parameters(), OptimConfig(weight_decay=0.1))
    decays = {tuple(group["params"][0].shape): group["weight_decay"] for group in optimiser.parts[0].param_groups}
    assert decays == {(3, 3): 0.1, (3,): 0.0}


def test_muon_takes_the_inner_matrices_and_adamw_the_rest(tmp_path: Path) -> None:
    policy = Policy.load(recipe(tmp_path).model)
    adamw, muon = Optimiser(policy.parameters(), OptimConfig("muon", lr=0.01), policy.tables).parts
    names = {id(parameter): name for name, parameter in policy.model.named_parameters()}
    taken = [{names[id(each)] for group in part.param_groups for each in group["params"]} for part in (muon, adamw)]
    assert taken[0] == {name for name in names.values() if "proj" in name}
    assert taken[1] == {name for name in names.values() if "embed" in name or "norm" in name}


def test_muon_takes_the_steps_of_torchs_own() -> None:
    if not hasattr(torch.optim, "Muon"):
        pytest.skip("this torch has no Muon")
    torch.manual_seed(0)
    ours = [torch.nn.Parameter(torch.randn(shape)) for shape in [(8, 8), (16, 8), (8, 8), (8, 16)]]
    theirs = [torch.nn.Parameter(each.detach().clone()) for each in ours]
    optimisers = (
        Muon(ours, lr=0.05, weight_decay=0.1),
        torch.optim.Muon(theirs, lr=0.05, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
    )
    start = [each.detach().clone() for each in ours]
    for _ in range(5):
        for one, other in zip(ours, theirs, strict=True):
            one.grad = torch.randn_like(one)
            other.grad = one.grad.clone()
        for optimiser in optimisers:
            optimiser.step()
    for one, other, before in zip(ours, theirs, start, strict=True):
        assert (one - other).norm() < 0.02 * (other - before).norm()  # theirs computes in bfloat16


def test_muons_directions_are_orthogonal_whatever_their_size() -> None:
    torch.manual_seed(0)
    for shape in [(3, 8, 8), (2, 8, 32), (2, 32, 8)]:
        found = torch.linalg.svdvals(orthogonal(1e-3 * torch.randn(shape)))
        assert found.min() > 0.3 and found.max() < 1.3
    assert not orthogonal(torch.zeros(1, 4, 4)).any()


def test_evaluation_is_greedy_unless_the_recipe_says_otherwise(tmp_path: Path) -> None:
    for temperature in (0.0, 0.7):
        run = train(recipe(tmp_path, eval={"temperature": temperature}, out=str(tmp_path / f"at-{temperature}")))
        results = json.loads((run.path / "eval" / "step-000004" / "results.json").read_text())
        assert results["config"]["agent"]["sampling"]["temperature"] == temperature


def test_stages_follow_each_other_with_their_own_rewards_and_roles(tmp_path: Path) -> None:
    stages = [
        {"name": "one", "steps": 2, "roles": ["planner"], "rewards": {"score": 1}},
        {"name": "two", "epochs": 1, "roles": ["executor"], "rewards": {"success": 1, "score": 0}},
    ]
    config = recipe(tmp_path, stages=stages, eval={"every": 0}, agent={"name": "tests.training.tiny:Chatty"})
    lines = train(config).metrics
    assert [line["stage"] for line in lines[1:]] == ["one", "one", "two", "two"]  # 4 tasks, 3 a step
    assert "reward/success" not in lines[1]
    assert lines[3]["reward"] == lines[3]["reward/success"]


def test_the_command_runs_a_recipe_says_what_it_would_do_and_refuses_nonsense(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import argparse

    import yaml

    config = recipe(tmp_path, eval={"every": 0})
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(to_dict(config)))
    parser = argparse.ArgumentParser()
    TRAIN.configure(parser)

    def command(*words: str) -> int:
        return TRAIN.run(parser.parse_args([str(path), *words]))

    assert command("--dry-run") == 0
    text = capsys.readouterr().out
    for word in ("5 steps", "4 bandit", "GiB", "tokens a step", "trained: executor"):
        assert word in text
    assert not (tmp_path / "run").exists()
    assert command("stages.0.steps=1") == 0
    out, err = capsys.readouterr()
    assert "checkpoints/last" in " ".join(out.split())
    assert "step 1/1" in err
    with pytest.raises(AdaPlanError, match="did you mean 'steps'"):
        command("stages.0.stepss=1")


def test_a_dry_run_measures_for_a_limited_time_and_says_what_that_means(tmp_path: Path) -> None:
    trainer = Trainer(recipe(tmp_path, rollout={"groups": 1, "deadline": 60.0}))
    rows = dict(describe_run(trainer, patience=0.0))
    assert rows["measured"].startswith("nothing: no answer in 0 s") and rows["time"] == "unknown for 5 steps"
    assert trainer.learner.collector.config.deadline == 60.0
    rows = dict(describe_run(trainer))
    assert rows["measured"].startswith("about") and "did not end" not in rows["measured"]


def test_settings_may_follow_options_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import yaml

    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(to_dict(recipe(tmp_path))))
    assert main(["train", str(path), "stages.0.steps=7", "--dry-run", "optim.lr=0.5", "rollout.groups=2"]) == 0
    text = capsys.readouterr().out
    assert "7 steps" in text and "2 tasks x 4 episodes" in text
    with pytest.raises(SystemExit):
        main(["train", str(path), "optim.lr=0.5", "--unknown"])
    assert "unrecognized arguments: --unknown" in capsys.readouterr().err


def test_train_is_a_command_of_adaplan(capsys: pytest.CaptureFixture[str]) -> None:
    import configparser

    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    assert "train = adaplan_training.commands:TRAIN" in setup["options.entry_points"]["adaplan.commands"]
    assert main is not None
