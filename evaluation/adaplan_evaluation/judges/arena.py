"""Real environments for judges: to replay an episode, to ask the expert, to read the rules."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from adaplan_envs.core import TextEnv
from adaplan_envs.errors import NoPlanError
from adaplan_evaluation.suite import EnvPool
from adaplan_evaluation.types import Episode

_NOT_THE_REAL_ONES = frozenset({"backend", "simulator", "split", "max_steps"})

_log = logging.getLogger(__name__)


class Arena:
    """Environments with the settings of a run, always real ones.

    Args:
        env_settings: of the run; those that choose a simulated twin, a split or a limit are left out.
    """

    def __init__(self, env_settings: Mapping[str, Any] | None = None) -> None:
        self.settings = {key: value for key, value in (env_settings or {}).items() if key not in _NOT_THE_REAL_ONES}
        self._pool = EnvPool(**self.settings)
        self._expert: dict[tuple[str, str], tuple[str, ...] | None] = {}
        self._rules: dict[str, str] = {}

    @contextmanager
    def borrow(self, env_id: str) -> Iterator[TextEnv]:
        """Lend an environment; one in which something went wrong is not used again."""
        env = self._pool.take(env_id)
        base = env.unwrapped
        assert isinstance(base, TextEnv)
        broken = True
        try:
            yield base
            broken = False
        finally:
            self._pool.give(env_id, env, broken)

    def rules(self, env_id: str) -> str:
        """Return what an agent is told before it plays."""
        if env_id not in self._rules:
            with self.borrow(env_id) as env:
                self._rules[env_id] = env.rules
        return self._rules[env_id]

    def expert_commands(self, episode: Episode) -> tuple[str, ...] | None:
        """Return the commands that solve the episode's task, or None where nobody knows any. Asked once a task."""
        key = (episode.env_id, episode.task_id)
        if key not in self._expert:
            try:
                with self.borrow(episode.env_id) as env:
                    self._expert[key] = None if env.blocking else _solve(env, episode)
            except NoPlanError:
                self._expert[key] = None
            except Exception:  # costs the reference, not the judgement
                _log.warning("the expert failed on %s", episode.task_id, exc_info=True)
                self._expert[key] = None
        return self._expert[key]

    def close(self) -> None:
        """Close the environments. Closing twice is fine."""
        self._pool.close()


def _solve(env: TextEnv, episode: Episode) -> tuple[str, ...] | None:
    _, info = env.reset(seed=episode.seed, options={"task_id": episode.task_id})
    commands = []
    while info["stop_reason"] is None:
        commands.append(env.expert.action())
        *_, info = env.step(commands[-1])
    return tuple(commands) if info["success"] else None
