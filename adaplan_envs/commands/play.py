"""`adaplan play`: a person plays and sees exactly what a model sees."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator

import gymnasium

from adaplan_envs.cli import Command
from adaplan_envs.core import TextEnv
from adaplan_envs.errors import ConfigError, NoPlanError
from adaplan_envs.registration import resolve_id

_HELP = "? lists the possible actions, !plan asks the expert, !quit leaves"


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("env", metavar="ENV", help="name or Gymnasium id, such as maze or AdaPlan/Maze-v0")
    parser.add_argument("--split", help="draw the task from this split (default: train)")
    parser.add_argument("--task", metavar="ID", help="play this task, such as maze/test/0003")
    parser.add_argument("--rules", help="ruleset to play by (default: default)")
    parser.add_argument("--seed", type=int, help="pick the task, and chance within the episode, by this seed")


def _run(args: argparse.Namespace) -> int:
    options = {key: value for key in ("split", "rules") if (value := getattr(args, key)) is not None}
    env_id = resolve_id(args.env)
    env = gymnasium.make(env_id, **options)
    with contextlib.closing(env):
        if not isinstance(env.unwrapped, TextEnv):
            raise ConfigError(f"{env_id} is no text environment of this suite's kind (a TextEnv)")
        return _play(env.unwrapped, args.seed, args.task)


def _play(env: TextEnv, seed: int | None, task_id: str | None) -> int:
    observation, info = env.reset(seed=seed, options={"task_id": task_id})
    print(f"{env.rules}\n\nTask {info['task_id']}: {info['goal']}\n\n{observation}\n\n({_HELP})")
    for line in _lines():
        action = line.strip()
        if action == "?":
            actions = env.admissible_actions()
            print("\n".join(actions) if actions is not None else "The actions of this environment can't be listed.")
        elif action == "!plan":
            try:
                print("\n".join(f"{number}. {step}" for number, step in enumerate(env.expert.plan(), 1)))
            except NoPlanError as error:
                print(f"No plan: {error}.")
        elif action == "!quit":
            break
        elif action.startswith("!"):
            print(f"({_HELP})")
        elif action:
            observation, _, terminated, truncated, info = env.step(line)
            print(observation)
            if terminated or truncated:
                break
    outcome = info["stop_reason"] or "left"
    print(f"\n{outcome}: {info['steps']} of at most {info['max_steps']} steps, score {info['score']:.2f}")
    return 0


def _lines() -> Iterator[str]:
    """Yield what the player types, or the lines of a file or pipe, which are shown as if they had been typed."""
    if sys.stdin.isatty():
        with contextlib.suppress(EOFError):
            while True:
                yield input("> ")
        return
    for line in sys.stdin:
        print(f"> {line.rstrip()}")
        yield line


COMMAND = Command(
    "play an environment yourself",
    _configure,
    _run,
    description=f"Play one episode and see exactly what a model sees. While playing, {_HELP}.",
)
