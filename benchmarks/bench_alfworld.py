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
EPISODES = 4
GOALS = {"cold load + reset": 3.5, "warm reset": 40.0, "step": 40.0, "processes": 60.0}


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


def stock_rate(games: int = 3) -> float:
    """Return the steps a second of one stock environment, by the clock on the wall as `parallel_rate`."""
    stock, rates = stock_env(), []
    for index in range(games):
        rng = stable_rng("bench", index)
        stock.load(game_file(make_game("test", 7 * index)[0]))
        state = stock.reset()
        start = time.perf_counter()
        for _ in range(STEPS):
            state, _, _ = stock.step(rng.choice(state["admissible_commands"]))
        rates.append(STEPS / (time.perf_counter() - start))
    return statistics.median(rates)


def parallel_rate() -> float:
    """Return the steps a second of 16 environments in processes of their own, all together.

    Their games are translated beforehand; episodes are 50 steps of which most do something, and resets count.
    """
    env = gymnasium.make_vec(ENV_ID, num_envs=ENVS, mode="async", split="test")
    env.reset(seed=0)
    words = ("look", "go to fridge 1", "inventory", "go to desk 1", "go to drawer 1", "open drawer 1", "close drawer 1")
    start = time.perf_counter()
    for _ in range(EPISODES):
        env.reset(seed=0)
        for step in range(50):
            env.step((words[step % len(words)],) * ENVS)
    rate = ENVS * EPISODES * 50 / (time.perf_counter() - start)
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


def choose(count: int) -> list[Game]:
    """Return games of all kinds and sizes, half of them official where those are installed."""
    official = official_games()
    chosen = official[:: max(1, 2 * len(official) // count)][: count // 2]
    return chosen + [make_game("test", 7 * index)[0] for index in range(count - len(chosen))]


def run(games: int = 12) -> list[dict[str, Any]]:
    """Return one row for each measure: name, ours and baseline a second, ratio, goal."""
    times = side_by_side(choose(games))
    rows = [(name, 1 / ours, 1 / stock, GOALS[name]) for name, (stock, ours) in times.items()]
    rows.append((f"steps, {ENVS} processes against one", parallel_rate(), stock_rate(), GOALS["processes"]))
    return [
        {"name": f"ALFWorld {name}", "ours": ours, "baseline": stock, "ratio": ours / stock, "goal": goal}
        for name, ours, stock, goal in rows
    ]


def main() -> int:
    """Run what was asked for and print one line each."""
    parser = argparse.ArgumentParser(description="ALFWorld against the stock engine")
    parser.add_argument(
        "--games", type=int, default=12, help="to play side by side, half of them official if installed"
    )
    parser.add_argument("--memory", type=int, default=0, metavar="GAMES", help="only: the growth over so many games")
    parser.add_argument("--evaluation", action="store_true", help="only: the time of a random agent on the test games")
    args = parser.parse_args()
    if args.memory:
        print(f"growth over {args.memory} games: {growth(args.memory):.1f} MB")
    if args.evaluation:
        print(f"random agent on the 321 test games: {random_evaluation():.1f} s of processor time")
    if not (args.memory or args.evaluation):
        for row in run(args.games):
            print(
                "{name}: ours {ours:,.1f}/s, baseline {baseline:,.2f}/s, ratio {ratio:.1f} (goal {goal})".format(**row)
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
