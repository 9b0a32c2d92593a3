"""Wordle: the official rules, LMRL-Gym's rules, the board. The expert and the word lists have files of their own."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from adaplan_envs import ActionStatus, StopReason
from adaplan_envs.errors import ConfigError, UnknownNameError
from adaplan_envs.wordle import words
from adaplan_envs.wordle.env import WordleEnv
from adaplan_envs.wordle.marking import code, codes, mark, mark_naive


def begin(hidden: str, **kwargs: Any) -> WordleEnv:
    """Return an environment in which `hidden`, one of the answers, is to be found."""
    env = WordleEnv(**kwargs)
    index = words.answers().index(hidden)
    assert index < words.TEST + words.TRAIN, "choose a word of a split"
    split, offset = ("test", 0) if index < words.TEST else ("train", words.TEST)
    env.reset(options={"task_id": env.task_id(split, index - offset)})
    return env


HIDDEN = words.answers()[0]
WRONG = [word for word in words.answers()[1:40] if mark(word, HIDDEN) != "ggggg"]


@pytest.mark.parametrize(
    ("guess", "hidden", "official", "naive"),
    [
        ("crane", "crane", "ggggg", "ggggg"),
        ("sloth", "crane", "bbbbb", "bbbbb"),
        ("eerie", "crane", "bbybg", "yyybg"),  # its only e is taken by the green one
        ("allow", "label", "yyybb", "yyybb"),
        ("speed", "abide", "bbyby", "bbyyy"),
        ("speed", "erase", "ybyyb", "ybyyb"),
        ("geese", "eerie", "bgybg", "bgybg"),
        ("mamma", "gamma", "bgggg", "ygggg"),
    ],
)
def test_repeated_letters_are_marked_as_in_the_official_game_and_naively_as_in_lmrl(
    guess: str, hidden: str, official: str, naive: str
) -> None:
    assert (mark(guess, hidden), mark_naive(guess, hidden)) == (official, naive)


def test_the_marks_that_the_expert_thinks_with_are_those_that_the_game_gives() -> None:
    some = [*words.answers()[:150], "mamma", "eerie", "geese", "allow", "speed"]
    for naive, marking in ((False, mark), (True, mark_naive)):
        expected = [[code(marking(guess, hidden)) for hidden in some] for guess in some]
        assert codes(some, some, naive).tolist() == expected
    assert (code("bbbbb"), code("ggggg"), code("bbbby")) == (0, 242, 1)


def test_the_hidden_word_solves_it_in_any_spelling() -> None:
    for spelling in (HIDDEN, HIDDEN.upper(), " ".join(HIDDEN), f"  {' '.join(HIDDEN.upper())} \n"):
        _, reward, terminated, truncated, info = begin(HIDDEN).step(spelling)
        assert (reward, terminated, truncated) == (1.0, True, False)
        assert info["success"] and info["score"] == 1.0 and info["action"] == HIDDEN
        assert (info["feedback"], info["stop_reason"]) == ("ggggg", StopReason.SUCCESS)


def test_every_letter_gets_a_colour_in_the_observation() -> None:
    env = begin(HIDDEN)
    observation, *_, info = env.step(WRONG[0])
    marks = mark(WRONG[0], HIDDEN)
    colours = {"g": "green", "y": "yellow", "b": "gray"}
    assert observation.startswith(", ".join(f"{x} {colours[m]}" for x, m in zip(WRONG[0], marks, strict=True)))
    assert observation.endswith("5 tries left.") and info["feedback"] == marks and info["tries_left"] == 5


def test_six_wrong_guesses_end_the_game_and_reveal_the_word() -> None:
    env = begin(HIDDEN)
    for number, word in enumerate(WRONG[:6], 1):
        observation, reward, terminated, truncated, info = env.step(word)
        assert (reward, terminated, truncated) == (0.0, number == 6, False)
        assert (HIDDEN in observation) == (number == 6)
    assert info["stop_reason"] is StopReason.FAILURE and not info["success"] and info["score"] < 1


@pytest.mark.parametrize(
    ("guess", "status", "reason"),
    [
        ("qqqqq", ActionStatus.INVALID, "qqqqq is not in the word list"),
        ("Q q q q q", ActionStatus.INVALID, "qqqqq is not in the word list"),
        ("cat", ActionStatus.UNPARSED, "five letters"),
        ("", ActionStatus.UNPARSED, "five letters"),
        ("crâne", ActionStatus.UNPARSED, "five letters"),
        ("cran3", ActionStatus.UNPARSED, "five letters"),
        ("x" * 100_000, ActionStatus.UNPARSED, "five letters"),
    ],
)
def test_a_refused_guess_says_why_and_costs_a_try_only_by_option(guess: str, status: ActionStatus, reason: str) -> None:
    for costs in (False, True):
        env = begin(HIDDEN, refused_costs_try=costs)
        observation, reward, terminated, _, info = env.step(guess)
        assert reason in observation and len(observation) < 200
        assert (info["action_status"], info["feedback"], info["tries_left"]) == (status, "", 6 - costs)
        assert (reward, terminated) == (0.0, False)


def test_refusals_are_bounded_by_max_steps_or_by_the_tries_that_they_cost() -> None:
    for costs, steps, stop in ((False, 12, StopReason.MAX_STEPS), (True, 6, StopReason.FAILURE)):
        env = begin(HIDDEN, refused_costs_try=costs)
        done = False
        while not done:
            _, _, terminated, truncated, info = env.step("qqqqq")
            done = terminated or truncated
        assert (info["steps"], info["stop_reason"]) == (steps, stop)


def test_the_rules_say_what_a_refused_guess_costs() -> None:
    assert "try" not in WordleEnv().rules.splitlines()[-1]
    assert "uses up a try" in WordleEnv(refused_costs_try=True).rules.splitlines()[-1]
    assert "uses up a try" in WordleEnv(rules="lmrl").rules.splitlines()[-1]


def test_repeating_a_guess_costs_a_try_and_tells_nothing() -> None:
    env = begin(HIDDEN)
    env.step(WRONG[0])
    *_, info = env.step(WRONG[0])
    assert (info["action_status"], info["tries_left"]) == (ActionStatus.NO_EFFECT, 4)


def test_the_score_is_that_of_the_best_guess() -> None:
    env = begin(HIDDEN)
    best = 0
    for word in WRONG[:5]:
        *_, info = env.step(word)
        marks = mark(word, HIDDEN)
        best = max(best, 2 * marks.count("g") + marks.count("y"))
        assert info["score"] == best / 10


def test_admissible_actions_are_the_possible_answers_not_guessed_yet() -> None:
    env = begin(HIDDEN, admissible_actions=True)
    *_, info = env.step(WRONG[0])
    assert info["admissible_actions"] == sorted(set(words.answers()) - {WRONG[0]})


def test_neither_goal_nor_first_observation_nor_info_gives_the_word_away() -> None:
    env = WordleEnv(split="test")
    for task_id in env.task_ids():
        observation, info = env.reset(options={"task_id": task_id})
        task = env.current_task
        assert task.data not in f"{observation} {info} {env.rules}" and task.difficulty >= 1


def test_a_snapshot_continues_in_another_environment() -> None:
    for kwargs in ({}, {"rules": "lmrl"}):
        env, other = WordleEnv(**kwargs), WordleEnv(**kwargs)
        env.reset(seed=3)
        env.step("crane")
        frozen = pickle.loads(pickle.dumps(env.snapshot()))
        rest = [env.step(word) for word in ("moist", "pudgy")]
        for _ in range(2):
            other.restore(frozen)
            assert [other.step(word) for word in ("moist", "pudgy")] == rest


# -- the rules of LMRL-Gym


def test_lmrl_rules_replay_every_recorded_game(recorded: Any) -> None:
    vocabulary, *games = recorded("wordle_lmrl_reference.jsonl")
    env = WordleEnv(rules="lmrl", vocabulary=vocabulary["vocab"])
    assert len(games) == 180
    for game in games:
        env.reset(seed=game["seed"])
        for step in game["steps"]:
            _, reward, terminated, truncated, info = env.step(step["guess"])
            assert (info["feedback"] or "invalid") == step["feedback"]
            assert (reward - 1, terminated, truncated) == (step["reward"], step["done"], False)
            assert len(env._state.remaining) == step["remaining"]
            assert info["success"] == (step["reward"] == 0)


def test_lmrl_draws_the_word_anew_among_those_that_fit() -> None:
    env = WordleEnv(rules="lmrl")
    last = set()
    for seed in range(30):
        env.reset(seed=seed)
        for guess in ("crane", "moist"):
            env.step(guess)
            assert all(
                [mark_naive(old, word) for old, _ in env.history] == [marks for _, marks in env.history]
                for word in env._state.remaining
            )
        last.add(env.history[-1])
    assert len(last) > 5


def test_lmrl_minds_the_case_as_the_reference_does() -> None:
    env = WordleEnv(rules="lmrl")
    env.reset(seed=0)
    observation, *_, info = env.step("Crane")
    assert "small letters" in observation
    assert (info["action_status"], info["tries_left"], info["feedback"]) == (ActionStatus.INVALID, 5, "")
    assert env.step("c r a n e")[-1]["action_status"] is ActionStatus.OK


def test_lmrl_games_differ_between_tasks_asked_for_by_id_and_repeat_with_the_seed() -> None:
    env = WordleEnv(rules="lmrl")

    def play(task_id: str, seed: int) -> list[str]:
        env.reset(seed=seed, options={"task_id": task_id})
        return [env.step(word)[-1]["feedback"] for word in ("crane", "sloth", "pudgy")]

    games = [play(task_id, 0) for task_id in env.task_ids("test")[:20]]
    assert games == [play(task_id, 0) for task_id in env.task_ids("test")[:20]]
    assert len(set(map(tuple, games))) > 5


def test_a_wrong_vocabulary_is_refused_with_its_fix() -> None:
    with pytest.raises(ConfigError, match='add rules="lmrl"'):
        WordleEnv(vocabulary=["crane"])
    for bad, message in (([], "empty"), (["crane", "crane"], "2 times"), (["cat"], "'cat'"), (["Crane"], "small")):
        with pytest.raises(ConfigError, match=message):
            WordleEnv(rules="lmrl", vocabulary=bad)
    with pytest.raises(UnknownNameError, match="lmrl"):
        WordleEnv(rules="lmlr")


# -- the board


def test_the_picture_shows_each_mark_in_its_place() -> None:
    env = begin(HIDDEN, render_mode="rgb_array")
    empty = env.render()
    assert empty.shape == (316, 264, 3) and empty.dtype == np.uint8
    env.step(HIDDEN)
    picture = env.render()
    for column in range(5):
        corner = picture[6, 6 + 52 * column]
        assert tuple(corner) == (106, 170, 100), "green"
        assert (picture[4:52, 4 + 52 * column : 52 + 52 * column] == 255).all(axis=2).any(), "a letter"
    assert (picture[56:] == empty[56:]).all(), "the other rows are empty"


def test_the_text_board_lists_guesses_over_marks() -> None:
    env = begin(HIDDEN, render_mode="ansi")
    env.step(WRONG[0])
    assert env.render() == f"{' '.join(WRONG[0].upper())}\n{' '.join(mark(WRONG[0], HIDDEN))}\n5 tries left."
