"""The ALFWorld engine: the stock engine's every word, without its habits."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("alfworld", reason="pip install adaplan[alfworld]")
pytest.importorskip("textworld", reason="pip install adaplan[alfworld]")

from adaplan_envs.alfworld import engine as engines
from adaplan_envs.alfworld.engine import GOAL_SLOT, Engine, translate
from adaplan_envs.alfworld.generator import make_game
from adaplan_envs.alfworld.world import Game
from adaplan_envs.core import stable_rng
from adaplan_envs.errors import SimulatorError
from benchmarks.alfworld_stock import game_file, stock_env
from tests.conftest import ROOT
from tests.envs.alfworld import official_games


@pytest.fixture(scope="module")
def stock() -> Any:
    return stock_env()


@pytest.fixture
def engine() -> Iterator[Engine]:
    made = Engine()
    yield made
    made.close()


def compare(stock: Any, engine: Engine, game: Game, steps: int, seed: object) -> None:
    """Play random commands on both engines and hold every word of ours to the stock engine's."""
    rng = stable_rng("stock", seed)
    stock.load(game_file(game))
    state = stock.reset()
    engine.load(translate(game.problem))
    said: str | None = engine.text("#intro#").replace(GOAL_SLOT, game.task)
    for _ in range(steps):
        assert said == state.feedback
        assert engine.commands == state["admissible_commands"]
        assert engine.won == state["won"]
        if engine.won:
            break
        command = rng.choice(engine.commands)
        said = engine.step(command)
        state, _, _ = stock.step(command)


# The whole of the claim, 40 games and large ones too, is benchmarks/bench_alfworld.py --games 40.
@pytest.mark.slow
@pytest.mark.parametrize("start", [0, 6])
def test_every_word_is_the_stock_engines(stock: Any, engine: Engine, start: int) -> None:
    for index in range(start, start + 6):
        compare(stock, engine, make_game("test", index + 18 * start)[0], steps=30, seed=index)


@pytest.mark.slow
def test_every_word_is_the_stock_engines_in_official_games(stock: Any, engine: Engine, recorded: Any) -> None:
    for game in (official_games(recorded)[0], official_games(recorded)[12]):
        compare(stock, engine, game, steps=30, seed=game.task)


def test_a_command_that_is_not_possible_does_nothing(engine: Engine) -> None:
    engine.load(translate(make_game("test", 0)[0].problem))
    before, listed = {name: set(args) for name, args in engine.facts.items()}, engine.commands
    assert engine.step("take moon 1 from sky 1") is None
    assert engine.facts == before
    assert engine.commands == listed
    assert engine.played == []


def test_replay_leads_to_the_same_state(engine: Engine) -> None:
    problem = translate(make_game("train", 3)[0].problem)
    engine.load(problem)
    rng = stable_rng("replay")
    for _ in range(25):
        engine.step(rng.choice(engine.commands))
    other = Engine()
    other.load(problem)
    other.replay(engine.played)
    assert (other.facts, other.commands, other.won) == (engine.facts, engine.commands, engine.won)
    other.close()


def test_translating_leaves_the_process_as_it_was(capfd: pytest.CaptureFixture[str]) -> None:
    before = list(sys.argv), sys.stdout
    translate(make_game("train", 7)[0].problem)
    assert (sys.argv, sys.stdout) == before
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "problem", ["", "(define (problem x)", "(define (problem x) (:domain chess) (:objects) (:init))"]
)
def test_a_malformed_problem_is_a_simulator_error(problem: str) -> None:
    with pytest.raises(SimulatorError, match="ALFRED domain"):
        translate(problem)


def test_a_second_thread_in_the_same_engine_is_told_what_to_do(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.load(translate(make_game("test", 0)[0].problem))
    inside, leave = threading.Event(), threading.Event()
    possible = engine._possible

    def slow() -> Any:
        inside.set()
        leave.wait(30)
        return possible()

    monkeypatch.setattr(engine, "_possible", slow)
    said: list[str | None] = []
    thread = threading.Thread(target=lambda: said.append(engine.step("look")))
    thread.start()
    assert inside.wait(30)
    for enter in (lambda: engine.step("look"), lambda: engine.won, lambda: engine.commands, lambda: engine.replay([])):
        with pytest.raises(SimulatorError, match="an environment for each thread"):
            enter()
    leave.set()
    thread.join()
    assert said[0], "the first thread goes on"
    assert engine.step("look"), "one after the other is fine"


def test_threads_with_an_engine_each_play_as_if_alone() -> None:
    code = (
        "import threading\n"
        "from adaplan_envs.alfworld.engine import Engine, translate\n"
        "from adaplan_envs.alfworld.generator import make_game\n"
        "from adaplan_envs.core import stable_rng\n"
        "def play(index, shown):\n"
        "    engine, rng = Engine(), stable_rng(index)\n"
        "    engine.load(translate(make_game('test', index)[0].problem))\n"
        "    shown[index] = [engine.text('#intro#')]\n"
        "    for _ in range(25): shown[index].append(engine.step(rng.choice(engine.commands)))\n"
        "together, alone = {}, {}\n"
        "threads = [threading.Thread(target=play, args=(index, together)) for index in range(3)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        "for index in range(3): play(index, alone)\n"
        "print(together == alone)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert (ran.stdout, ran.stderr) == ("True\n", "")


def test_closed_engines_hand_their_library_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "_idle_libraries", [])
    problem = translate(make_game("test", 0)[0].problem)
    for _ in range(4):
        made = Engine()
        made.load(problem)
        made.close()
        made.close()
    forgotten = Engine()
    forgotten.load(problem)
    del forgotten
    assert len(engines._idle_libraries) == 1


def test_playing_writes_nothing_to_the_home_folder(tmp_path: Path) -> None:
    code = (
        "import gymnasium\n"
        "env = gymnasium.make('adaplan_envs:AdaPlan/ALFWorld-v0', split='test')\n"
        "env.reset(seed=0); env.step('look'); env.close()"
    )
    settings = {key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "ALFWORLD_"))}
    subprocess.run([sys.executable, "-c", code], env={**settings, "HOME": str(tmp_path)}, cwd=ROOT, check=True)
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_memory_does_not_grow_with_the_games_played(engine: Engine) -> None:
    def resident() -> float:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

    small = [index for index in range(3000) if index % 18 < 6]
    for count, index in enumerate(small[:160]):
        if count == 60:
            first = resident()
        engine.load(translate(make_game("train", index)[0].problem))
        engine.step(engine.commands[0])
    assert resident() - first < 15  # the stock engine: 100
