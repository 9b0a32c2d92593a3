"""One error class per boundary. Every message says what was wrong, where, and what mends it."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable
from types import ModuleType


class AdaPlanError(Exception):
    """Base class of every error that this project raises on purpose."""


class ConfigError(AdaPlanError, ValueError):
    """A wrong value from the user: an unknown name, a key that does not exist, a number out of range."""


class UnknownNameError(ConfigError):
    """A name that is not among the valid ones; the message lists the nearest."""

    def __init__(self, kind: str, name: object, choices: Iterable[str]) -> None:
        self.kind, self.name, self.choices = kind, name, sorted(choices)
        super().__init__(f"unknown {kind} {name!r}: {nearest(str(name), self.choices)}")

    def __reduce__(self) -> tuple[type, tuple[str, object, list[str]]]:  # exceptions pickle by args, ours has three
        return type(self), (self.kind, self.name, self.choices)


class DataMissingError(AdaPlanError):
    """Data that must be fetched first; the message holds the command that does so."""


class MissingExtraError(AdaPlanError, ImportError):
    """An optional dependency is not installed; the message holds the pip line that installs it."""


class SimulatorError(AdaPlanError):
    """A simulator (real or played by a language model) broke or was used wrongly."""


class ModelError(AdaPlanError):
    """A language model could not answer: the server failed, the answer was unusable, a limit was reached."""


class ModelAccessError(ModelError):
    """The model can't be used at all (wrong key, unknown model, no such file): retrying is pointless, a run stops."""


class ContextOverflowError(ModelError):
    """The next turn would not fit the model's window. Ends an episode as `StopReason.CONTEXT`, not as an error."""


class OutputError(AdaPlanError):
    """A result can't be written (full disk, no permission); what was written before is intact."""


class JudgeError(AdaPlanError):
    """A judge gave no usable judgement."""


class TrainingError(AdaPlanError):
    """A training run can't go on (a loss that is no number, no memory left); the message says what mends it."""


class NoPlanError(AdaPlanError):
    """The expert can't reach the goal from the current state."""


def nearest(name: str, choices: Iterable[str], limit: int = 5) -> str:
    """Return a hint such as ``did you mean 'test'? Valid: 'test', 'train'`` for an error message."""
    valid = sorted(choices)
    folded = {choice.lower(): choice for choice in valid}
    close = [folded[hit] for hit in difflib.get_close_matches(name.lower(), list(folded), n=limit, cutoff=0.6)]
    listed = ", ".join(map(repr, valid)) if len(valid) <= 20 else f"{len(valid)} names, such as {valid[0]!r}"
    return (f"did you mean {' or '.join(map(repr, close))}? " if close else "") + f"Valid: {listed or 'none'}"


def check_name(kind: str, name: str, choices: Iterable[str]) -> str:
    """Return `name` if it is one of `choices`.

    Raises:
        UnknownNameError: it is not.
    """
    valid = list(choices)
    if name not in valid:
        raise UnknownNameError(kind, name, valid)
    return name


def require(module: str, extra: str) -> ModuleType:
    """Import `module`, an optional dependency.

    Raises:
        MissingExtraError: it is not installed; the message names the `extra` that brings it.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise  # installed but broken: its own message is the better one
        raise MissingExtraError(
            f'{module} is not installed. Install it with: pip install "adaplan[{extra}]"', name=error.name
        ) from None
