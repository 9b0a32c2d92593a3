"""Plays fixed episodes of environments and prints a digest of each: `python episodes.py ID...` -> JSON.

Run as a script in processes that differ in PYTHONHASHSEED, and imported for the same in this one.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
from typing import Any

import gymnasium

from adaplan_envs.core import stable_rng
from adaplan_envs.errors import NoPlanError


def choose(env: Any, rng: random.Random) -> str:
    """Return an admissible action at random or, half of the time and where none is listed, the expert's."""
    listed = env.unwrapped.admissible_actions()
    if listed and rng.random() < 0.5:
        return rng.choice(listed)
    try:
        return str(env.unwrapped.expert.action())
    except NoPlanError:  # what was played before has made the goal impossible
        return rng.choice(listed or ["look"])


def play(env: Any, seed: int, steps: int = 12) -> list[Any]:
    """Return everything that an episode shows, played by `choose`."""
    rng = stable_rng("play", seed)
    observation, info = env.reset(seed=seed)
    shown: list[Any] = [observation, info]
    for _ in range(steps):
        if info["stop_reason"] is not None:
            break
        action = choose(env, rng)
        observation, reward, terminated, truncated, info = env.step(action)
        shown += [action, observation, reward, terminated, truncated, info]
    return shown


def digest(shown: Any) -> str:
    """Return a short fingerprint of what `play` returned."""
    return hashlib.sha256(json.dumps(shown, sort_keys=False).encode()).hexdigest()[:16]


def digests(env_id: str, rules: str, seeds: range) -> list[str]:
    """Play one episode a seed, all in one environment."""
    env = gymnasium.make(f"adaplan_envs:{env_id}", rules=rules, admissible_actions=True)
    try:
        return [digest(play(env, seed)) for seed in seeds]
    finally:
        env.close()


if __name__ == "__main__":
    pairs = [word.split("=") for word in sys.argv[2:]]
    result = {f"{env_id}={rules}": digests(env_id, rules, range(int(sys.argv[1]))) for env_id, rules in pairs}
    sys.stdout.write(json.dumps(result))
