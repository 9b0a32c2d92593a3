"""What every test may use."""

from __future__ import annotations

import gzip
import importlib.util
import json
import signal
from pathlib import Path
from typing import Any

import hypothesis
import pytest

import adaplan_envs  # noqa: F401 - registers the suite

hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis.settings.load_profile("repeatable")

ROOT = Path(__file__).parent.parent
FIXTURES = ROOT.parent / "shared" / "fixtures"
"""Recorded runs of third-party implementations, beside the checkout and not part of it."""


@pytest.fixture(scope="session")
def recorded() -> Any:
    """Return a function: file name -> list of its JSON lines. Skips where the recordings are not at hand."""

    def load(name: str) -> list[dict[str, Any]]:
        path = FIXTURES / name
        if not path.exists():
            pytest.skip(f"recorded runs not at hand: {path}")
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        return [json.loads(line) for line in content.decode().splitlines()]

    return load


def load_script(name: str) -> Any:
    """Return ``scripts/NAME.py`` as a module, as new each time."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def heed_interrupts() -> None:
    """Let a child process (``preexec_fn``) hear SIGINT even where this one ignores it, as a script's background job."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
