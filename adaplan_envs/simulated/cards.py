"""Tasks of environments whose packages are not installed, frozen into cards, so that their twins can be played.

`scripts/build_simulated_cards.py` makes them from the real environments.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from importlib.resources import files
from typing import Any, NoReturn

from adaplan_envs.core import TextEnv
from adaplan_envs.errors import ConfigError, MissingExtraError
from adaplan_envs.registration import Entry
from adaplan_envs.types import Task


class CardEnv(TextEnv):
    """Stands in for a real environment: it knows tasks, first observations and hidden facts, but can't be played.

    Args:
        entry: the real environment's line in the table.
        **options: see `TextEnv`.

    Raises:
        ConfigError: there are no cards of this environment.
    """

    def __init__(self, entry: Entry, **options: Any) -> None:
        self._entry = entry
        head, self._cards = read_cards(entry.short_name)
        self.name = entry.short_name  # type: ignore[misc]
        self.splits = {split: len(cards) for split, cards in self._cards.items()}  # type: ignore[misc]
        self.rulesets = {"default": head["rules"]}  # type: ignore[misc]
        self.default_max_steps = head["max_steps"]  # type: ignore[misc]
        self.manual: str = head["manual"]
        """What the real environment's page says of observations, actions and end."""
        super().__init__(**options)

    def make_task(self, split: str, index: int) -> Task:
        """Return task `index` of `split`; its data is its card."""
        card = self._cards[split][index]
        return Task(self.task_id(split, index), split, index, card["goal"], card["difficulty"], card)

    def _begin(self, task: Task, seed: int) -> str:
        return str(task.data["opening"])

    def hidden_facts(self) -> dict[str, Any]:
        return dict(self.current_task.data["hidden"])

    def secrets(self) -> list[tuple[str, ...]]:
        return [tuple(secret) for secret in self.current_task.data["secrets"]]

    def _apply(self, action: str) -> NoReturn:
        self._missing()

    def _make_expert(self) -> NoReturn:
        self._missing()

    def _missing(self) -> NoReturn:
        raise MissingExtraError(
            f"the real {self._entry.id} is not installed, and this needs it. "
            f'Install it with: pip install "adaplan[{self._entry.extra}]"'
        )


@cache
def read_cards(name: str) -> tuple[dict[str, Any], dict[str, list[dict[str, Any]]]]:
    """Return the head and the cards of each split, in order, of an environment.

    Raises:
        ConfigError: there are none.
    """
    source = files("adaplan_envs.simulated") / "data" / f"{name}.jsonl.gz"
    if not source.is_file():
        raise ConfigError(f"there are no cards of {name}: install the environment itself")
    head, *cards = map(json.loads, gzip.decompress(source.read_bytes()).splitlines())
    by_split: dict[str, list[dict[str, Any]]] = {}
    for card in cards:
        by_split.setdefault(card["split"], []).append(card)
    return head, by_split
