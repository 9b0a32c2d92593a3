"""ALFWorld against the stock engine: is every word the same, and how much faster is it.

``python benchmarks/bench_alfworld.py [--games 40] [--memory 2000]`` (``pip install "adaplan[alfworld]"``). Both engines
play the same random commands side by side; at every step observation, admissible commands and `won` must be equal.
Times of one process are processor time, so that a busy machine does not blur the ratios; medians count.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
from alfworld_stock import game_file, stock_env

from adaplan_envs.alfworld import engine as engines
from adaplan_envs.alfworld.engine import GOAL_SLOT, Engine, translate
from adaplan_envs.alfworld.generator import make_game
from adaplan_envs.alfworld.world import Game
from adaplan_envs.core import stable_rng

STEPS = 30
ENV_ID = "adaplan_envs:AdaPlan/ALFWorld-v0"
ENVS = 16


def official_games() -> list[Game]:
    """Return the installed official games."""
    from adaplan_envs.alfworld.official import installed_sizes, load_game

    return [load_game(split, index) for split, size in sorted(installed_sizes().items()) for index in range(size)]


def side_by_side(games: list[Game]) -> dict[str, tuple[float, float]]:
    """Play `games` on both engines and return (stock, ours) seconds of a cold start, a warm reset and a step.

    Raises:
        SystemExit: the engines differ.
    """
    stock, ours = stock_env(), Engine()
    translate(make_game("train", 0)[0].problem)  # imports and parses what a process needs once
    stock.load(game_file(make_game("train", 0)[0]))
    seconds: dict[str, list[tuple[float, float]]] = {"cold load + reset": [], "warm reset": [], "step": []}
    clock = time.process_time

    def begin(game: Game) -> str:
        ours.load(translate(game.problem))
        return ours.text("#intro#").replace(GOAL_SLOT, game.task)

    for number, game in enumerate(games):
        rng = stable_rng("bench", number)
        engines._translated.clear()
        start = clock()
        stock.load(game_file(game))
        stock.reset()
        middle = clock()
        begin(game)
        seconds["cold load + reset"].append((middle - start, clock() - middle))
        start = clock()
        state = stock.reset()
        middle = clock()
        said: str | None = begin(game)
        seconds["warm reset"].append((middle - start, clock() - middle))
        for step in range(STEPS + 1):
            theirs = (state.feedback, state["admissible_commands"], state["won"])
            if theirs != (mine := (said, ours.commands, ours.won)):
                raise SystemExit(f"game {number}, step {step}: the stock engine says {theirs}, ours {mine}")
            if ours.won or step == STEPS:
                break
            command = rng.choice(ours.commands)
            start = clock()
            state, _, _ = stock.step(command)
            middle = clock()
            said = ours.step(command)
            _ = ours.commands, ours.won
            seconds["step"].append((middle - start, clock() - middle))
        print(f"\r{number + 1} of {len(games)} games are the same", end="", file=sys.stderr)
    print(file=sys.stderr)
    ours.close()
    return {
        name: (statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs))
        for name, pairs in seconds.items()
    }


def parallel_rate(seconds: float = 8.0) -> float:
    """Return the steps a second of 16 environments in processes of their own, all together."""
    env = gymnasium.make_vec(ENV_ID, num_envs=ENVS, mode="async", split="test")
    env.reset(seed=0)
    actions = [tuple(words for _ in range(ENVS)) for words in ("look", "inventory", "go to fridge 1", "go to drawer 1")]
    start, steps = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        env.step(actions[steps % len(actions)])
        steps += 1
        if steps % 45 == 0:
            env.reset()  # the same tasks or others, as an evaluation does
    rate = ENVS * steps / (time.perf_counter() - start)
    env.close()
    return rate


def random_evaluation() -> float:
    """Return the processor seconds of a random agent's evaluation on the 321 test games."""
    env: Any = gymnasium.make(ENV_ID, split="test", admissible_actions=True)
    start = time.process_time()
    for task_id in env.unwrapped.task_ids():
        rng = stable_rng(task_id)
        _, info = env.reset(options={"task_id": task_id})
        while info["stop_reason"] is None:
            info = env.step(rng.choice(info["admissible_actions"]))[-1]
    env.close()
    return time.process_time() - start


def resident() -> float:
    """Return the memory that this process holds, in MB."""
    status = Path("/proc/self/statm")
    if status.exists():
        return int(status.read_text().split()[1]) * resource.getpagesize() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def growth(games: int) -> float:
    """Return by how many MB the process grows over `games` different games, after the first 50."""
    env: Any = gymnasium.make(ENV_ID, split="train")
    first = 0.0
    for index in range(games + 50):
        if index == 50:
            first = resident()
        env.reset(options={"task_id": env.unwrapped.task_id("train", index)})
        for _ in range(3):
            env.step(env.unwrapped.expert.action())
    env.close()
    return resident() - first


def main() -> int:
    """Run what was asked for and print one line each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument(
        "--games", type=int, default=12, help="to play side by side, half of them official if installed"
    )
    parser.add_argument("--memory", type=int, default=0, metavar="GAMES", help="also measure growth over so many games")
    parser.add_argument("--evaluation", action="store_true", help="also time a random agent on the 321 test games")
    args = parser.parse_args()
    games = official_games()[:: max(1, 2 * len(official_games()) // args.games)][: args.games // 2]
    games += [make_game("test", 7 * index)[0] for index in range(args.games - len(games))]
    times = side_by_side(games)
    for name, (stock, ours) in times.items():
        print(f"{name:20} stock {stock * 1e3:9.2f} ms   ours {ours * 1e3:7.2f} ms   {stock / ours:6.1f} x")
    one, rate = 1 / times["step"][0], parallel_rate()
    print(f"{ENVS} processes        stock {one:7.1f} steps/s (one)   ours {rate:7.0f} steps/s   {rate / one:6.1f} x")
    if args.evaluation:
        print(f"random agent on the 321 test games: {random_evaluation():.1f} s of processor time")
    if args.memory:
        print(f"growth over {args.memory} games: {growth(args.memory):.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
