"""Wordle: steps a second, resets included, against textarena's Wordle.

    python benchmarks/bench_wordle.py

Both play the expert's games of the same 200 training words, in turns, in one process, each as its users do:
`gymnasium.make`, `reset`, `step`, and `textarena.make`, `reset`, `get_observation`, `step`. textarena takes its words
from NLTK corpora that must be downloaded; here it gets ours, so nothing is downloaded.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from time import process_time
from typing import Any

import gymnasium

from adaplan_envs import TextEnv
from adaplan_envs.errors import require
from adaplan_envs.wordle import words

TURNS, GAMES = 40, 200


def make_textarena() -> Any:
    """Return textarena's Wordle, with our words in the place of the corpora that it would download.

    Raises:
        MissingExtraError: it is not installed.
    """
    nltk = require("nltk", "bench")
    nltk.download = lambda *args, **kwargs: False
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "corpora" / "words"
        corpus.mkdir(parents=True)
        for name, listed in (("en", sorted(words.guesses())), ("en-basic", words.answers())):
            (corpus / name).write_text("\n".join(listed))
        nltk.data.path.insert(0, folder)
        module = require("textarena.envs.Wordle.env", "bench")
        module.pos_tag = lambda tokens: [(token, "NN") for token in tokens]
        env = require("textarena", "bench").make("Wordle-v0")
        nltk.data.path.remove(folder)
    return env


def games(env: TextEnv) -> list[list[str]]:
    """Return the expert's guesses in each game."""
    played: list[list[str]] = []
    for game in range(GAMES):
        env.reset(options={"task_id": env.task_id("train", game)})
        played.append([])
        while not env._done:
            played[-1].append(env.expert.action())
            env.step(played[-1][-1])
    return played


def play_ours(env: TextEnv, played: list[list[str]]) -> None:
    """Play the games."""
    for game, guesses in enumerate(played):
        env.reset(options={"task_id": env.task_id("train", game)})
        for guess in guesses:
            done = env.step(guess)[2]
        assert done


def play_textarena(env: Any, played: list[list[str]]) -> None:
    """Play the same games in textarena."""
    for game, guesses in enumerate(played):
        env.full_observations.clear()  # else its observations grow over all games
        env.reset(num_players=1, seed=game)
        env.state.game_state["secret_word"] = words.answers()[words.TEST + game]
        for guess in guesses:
            env.get_observation()
            done = env.step(f"[{guess}]")[0]
        assert done


def run() -> list[dict[str, Any]]:
    """Return the figures: processor time, the best of many turns, so that other processes disturb them least."""
    ours, theirs = gymnasium.make("AdaPlan/Wordle-v0").unwrapped, make_textarena()
    played = games(ours)
    steps = sum(map(len, played))
    best = [0.0, 0.0]
    for _ in range(TURNS):
        for i, (play, env) in enumerate(((play_ours, ours), (play_textarena, theirs))):
            start = process_time()
            play(env, played)
            best[i] = max(best[i], steps / (process_time() - start))
    return [
        {
            "name": "Wordle steps against textarena, resets included",
            "ours": best[0],
            "baseline": best[1],
            "ratio": best[0] / best[1],
            "goal": 5.0,
        }
    ]


if __name__ == "__main__":
    for row in run():
        print("{name}: ours {ours:,.0f}/s, baseline {baseline:,.0f}/s, ratio {ratio:.2f} (goal {goal})".format(**row))
