"""Vector environments that are right for text: what ``gym.make_vec("AdaPlan/...")`` uses.

Gymnasium's defaults suit arrays, not text: shared memory, which holds no strings, and autoreset, which puts the first
observation of the next episode where the last one of this belongs.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from adaplan_envs.errors import check_name
from adaplan_envs.registration import SIMULATED, SUITE
from adaplan_envs.wrappers import HoldAtEnd


def _make_one(env_id: str, env_kwargs: dict[str, Any]) -> gymnasium.Env[str, str]:
    return HoldAtEnd(gymnasium.make(f"adaplan_envs:{env_id}", **env_kwargs))


class _SyncVectorEnv(SyncVectorEnv):
    """`SyncVectorEnv` that lets an environment be stepped after its end, as `AsyncVectorEnv` and `HoldAtEnd` do."""

    def step(self, actions: Any) -> Any:
        self._autoreset_envs[:] = False
        return super().step(actions)


def make_vector(env_id: str, num_envs: int = 1, mode: str = "sync", **env_kwargs: Any) -> VectorEnv[Any, Any, Any]:
    """Return `num_envs` copies of an environment behind one Gymnasium `VectorEnv`.

    Observations and actions are tuples of strings. There is no autoreset: an episode that is over repeats its last
    step with reward 0 until ``reset`` (all, or some by ``options={"reset_mask": ...}``).

    Args:
        env_id: Gymnasium id, such as ``AdaPlan/Maze-v0``.
        num_envs: how many.
        mode: ``sync`` (one process; the fastest for all but ALFWorld) or ``async`` (a process each).
        env_kwargs: passed to every copy.

    Raises:
        UnknownNameError: no such mode.
    """
    check_name("vector mode", mode, ("sync", "async"))
    makers = [partial(_make_one, env_id, env_kwargs) for _ in range(num_envs)]
    if mode == "sync":
        return _SyncVectorEnv(makers, autoreset_mode=AutoresetMode.DISABLED)
    return AsyncVectorEnv(makers, shared_memory=False, autoreset_mode=AutoresetMode.DISABLED)


_BY_NAME = {entry.id.partition("/")[2].replace("-", "_"): entry.id for entry in (*SUITE, SIMULATED)}


def __getattr__(name: str) -> Any:
    # A vector entry point is told neither its id nor its spec, and a callable would make the spec impossible to write
    # as JSON: so `adaplan_envs.vector:Maze_v0` is looked up here.
    if name in _BY_NAME:
        return partial(make_vector, _BY_NAME[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
