"""Runs of several processes: the decisions of one process, its numbers up to rounding, and one set of files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from adaplan_evaluation.types import Episode
from adaplan_training.config import TrainConfig
from adaplan_training.parallel import World
from adaplan_training.recipe import load_recipe, to_dict
from adaplan_training.trainer import train
from tests.conftest import ROOT
from tests.training.test_sft import imitation
from tests.training.test_trainer import numbers, recipe, weights

PROCESSES = 2
PROGRAM = """
import sys
import tests.training.tiny
from adaplan_envs.cli import main
sys.exit(main(["train", *sys.argv[1:]]))
"""


def torchrun(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(PROCESSES)]
    command += ["--no-python", sys.executable, "-c", PROGRAM, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


def on_file(config: TrainConfig) -> Path:
    path = Path(f"{config.out}.yaml")
    path.write_text(yaml.safe_dump(to_dict(config)))
    return path


def assert_same_run(mine: Path, theirs: Path) -> None:
    for own, other in zip(numbers(mine), numbers(theirs), strict=True):
        assert own.pop("stage", None) == other.pop("stage", None)
        assert own == pytest.approx(other, rel=1e-3, abs=1e-5)
    for name, tensor in weights(theirs).items():
        torch.testing.assert_close(weights(mine)[name], tensor, rtol=1e-3, atol=1e-5)


def test_a_share_and_what_is_gathered_keep_their_order() -> None:
    items = list("abcdefg")
    shares = [World(rank, 3).share(items) for rank in range(3)]
    assert shares == [["a", "d", "g"], ["b", "e"], ["c", "f"]]
    assert World().gather(World().share(items)) == items
    assert World().add({"a": 1.0}) == {"a": 1.0} and World().tell("x") == "x"


def test_two_processes_go_on_with_the_run_of_one_as_that_one_would(tmp_path: Path) -> None:
    # Three groups, two an update: one process plays two of them, the other one.
    parts = {"rollout": {"mini_batch": 2}, "optim": {"name": "muon"}}
    alone = train(recipe(tmp_path, **parts, out=str(tmp_path / "alone")))
    path = on_file(recipe(tmp_path, **parts))

    def crash(step: int, steps: int, metrics: Any) -> None:
        if step == 3:
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        train(load_recipe(path), on_step=crash)
    done = torchrun(path, "--resume")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("5 steps") == 1 and done.stderr.count("step 5/5") == 1  # one of them speaks
    run = tmp_path / "run"
    assert_same_run(run, alone.path)
    episodes = [(each / "rollouts" / "step-000004.jsonl").read_text().splitlines() for each in (run, alone.path)]
    mine, theirs = ([Episode.from_json(line) for line in lines] for lines in episodes)
    assert [(each.task_id, each.seed, each.score) for each in mine] == [
        (each.task_id, each.seed, each.score) for each in theirs
    ]


@pytest.mark.slow
def test_two_processes_imitate_as_one_does(tmp_path: Path) -> None:
    # Batches of a token at most: each sequence is one, and of three the first process reads two.
    parts = {"optim": {"batch_tokens": 1}, "stages": [{"steps": 4, "roles": ["executor"]}]}
    alone = train(imitation(tmp_path, **parts, out=str(tmp_path / "alone")))
    done = torchrun(on_file(imitation(tmp_path, **parts)))
    assert done.returncode == 0, done.stderr
    assert_same_run(tmp_path / "run", alone.path)


def test_an_error_of_one_process_ends_all(tmp_path: Path) -> None:
    path = on_file(recipe(tmp_path))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text("{}")
    done = torchrun(path)
    assert done.returncode != 0
    assert "holds a run" in done.stderr
