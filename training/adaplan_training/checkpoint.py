"""Checkpoints: a folder in Hugging Face format with the state of the run beside the weights.

``checkpoints/step-000020`` is written under another name and then renamed, so it is whole or not there; ``last`` and
``best`` are links to such folders. A full disk or a kill leaves what was there before.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from adaplan_envs.errors import ConfigError, OutputError
from adaplan_training.optimise import Optimiser
from adaplan_training.policy import Policy

STATE = "trainer.pt"


class Checkpoints:
    """The checkpoints of a run.

    Args:
        folder: where they are.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def exist(self) -> bool:
        """Whether there is one."""
        return (self.folder / "last" / STATE).exists()

    def save(self, policy: Policy, optimiser: Optimiser, state: dict[str, Any], *, best: bool = False) -> Path:
        """Write a checkpoint, make it the last one (and the best), and delete those that are neither.

        Args:
            policy: its weights.
            optimiser: its averages.
            state: what else the run must remember; ``state["step"]`` names the folder.
            best: whether it is the best so far.

        Raises:
            OutputError: it can't be written; those before are intact.
        """
        target = self.folder / f"step-{state['step']:06d}"
        work = self.folder / f".{target.name}.{os.getpid()}"
        try:
            if not target.exists():
                work.mkdir(parents=True)
                policy.save(work)
                record = {**state, "optimiser": optimiser.state_dict(), "rng": torch.get_rng_state()}
                torch.save(record, work / STATE)
                _to_disk(work)
                work.rename(target)
            self._link("last", target)
            if best:
                self._link("best", target)
            self._tidy()
        except (OSError, RuntimeError) as error:  # torch and safetensors report a full disk as RuntimeError
            raise OutputError(f"can't write {target}: {error}. The checkpoints before it are intact") from error
        finally:
            shutil.rmtree(work, ignore_errors=True)
        return target

    def load(self, policy: Policy, optimiser: Optimiser) -> dict[str, Any]:
        """Put the last checkpoint into policy and optimiser, and return the run's state.

        Raises:
            ConfigError: there is none.
        """
        folder = self.folder / "last"
        if not self.exist:
            raise ConfigError(f"no checkpoint in {self.folder}: start the run without --resume")
        policy.restore(folder)
        state: dict[str, Any] = torch.load(folder / STATE, map_location=policy.device, weights_only=True)
        optimiser.load_state_dict(state.pop("optimiser"))
        torch.set_rng_state(state.pop("rng").cpu())
        return state

    def _link(self, name: str, target: Path) -> None:
        temporary = self.folder / f".{name}.{os.getpid()}"
        with suppress(FileNotFoundError):
            temporary.unlink()
        temporary.symlink_to(target.name)
        temporary.replace(self.folder / name)

    def _tidy(self) -> None:
        kept = {(self.folder / name).resolve().name for name in ("last", "best")}
        for folder in sorted(self.folder.iterdir()):
            # Hidden folders are leftovers of processes that were killed while writing.
            stale = folder.name.startswith((".step-", "step-")) and folder.name not in kept
            if stale and not folder.is_symlink():
                shutil.rmtree(folder, ignore_errors=True)


def _to_disk(folder: Path) -> None:
    for path in [*folder.rglob("*"), folder]:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
