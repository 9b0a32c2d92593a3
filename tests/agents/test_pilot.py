"""`pilot-tiny`, the policy in the package."""

from __future__ import annotations

import pytest

from adaplan_agents import load_model
from adaplan_agents.models.pilot import WEIGHTS
from adaplan_envs.errors import ConfigError

pytest.importorskip("torch")


def test_it_is_small_and_comes_with_a_card() -> None:
    assert sum(path.stat().st_size for path in WEIGHTS.iterdir()) < 12_000_000
    assert {"README.md", "config.json", "model.safetensors", "tokenizer.json"} <= {p.name for p in WEIGHTS.iterdir()}


def test_there_is_one_of_it() -> None:
    assert load_model("pilot-tiny").name == "pilot-tiny"
    with pytest.raises(ConfigError, match="is one model"):
        load_model("pilot-tiny:large")
