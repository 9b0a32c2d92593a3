"""Wordle's expert: good, honest (it does not know the hidden word), and at home in any situation."""

from __future__ import annotations

import pytest

from adaplan_envs.errors import NoPlanError
from adaplan_envs.wordle import words
from adaplan_envs.wordle.env import WordleEnv


def tries(env: WordleEnv) -> int:
    """Let the expert play to the end; return the number of guesses, 7 where it failed."""
    done = False
    while not done:
        _, _, terminated, truncated, info = env.step(env.expert.action())
        done = terminated or truncated
    return 6 - int(info["tries_left"]) if info["success"] else 7


def test_it_solves_the_test_split_in_3_8_tries_on_average() -> None:
    env = WordleEnv(split="test")
    played = []
    for task_id in env.task_ids():
        env.reset(options={"task_id": task_id})
        played.append(tries(env))
    assert sum(played) / len(played) <= 3.8
    assert sum(n <= 6 for n in played) >= 0.99 * len(played)


@pytest.mark.slow
def test_it_solves_the_train_split() -> None:
    env = WordleEnv(split="train")
    failed = 0
    for task_id in env.task_ids():
        env.reset(options={"task_id": task_id})
        failed += tries(env) > 6
    assert failed <= 8


def test_it_sees_only_what_a_player_sees() -> None:
    # Two hidden words that answer alike so far: the expert does the same.
    groups: dict[str, list[str]] = {}
    env = WordleEnv(split="test")
    for task_id in env.task_ids():
        env.reset(options={"task_id": task_id})
        marks = env.step("crane")[-1]["feedback"]
        groups.setdefault(marks, []).append(env.expert.action())
    assert max(map(len, groups.values())) > 3
    assert all(len(set(actions)) == 1 for actions in groups.values())


def test_it_goes_on_from_foolish_and_refused_guesses() -> None:
    env = WordleEnv(split="test")
    solved = 0
    for task_id in env.task_ids()[:40]:
        env.reset(options={"task_id": task_id})
        for word in ("xylyl", "qqqqq", "xylyl"):
            env.step(word)
        solved += tries(env) <= 6
    assert solved >= 38


def test_with_one_try_left_it_guesses_a_word_that_may_be_right() -> None:
    env = WordleEnv(split="test")
    env.reset(seed=0)
    for _ in range(5):
        env.step("xylyl")
    candidates = {env.pool[i] for i in env.expert._situation()[1]}  # type: ignore[attr-defined]
    assert env.expert.action() in candidates and len(env.expert.plan()) == 1


def test_the_plan_begins_with_the_next_guess_and_ends_in_time() -> None:
    env = WordleEnv(split="test")
    for seed in range(5):
        env.reset(seed=seed)
        while not env.solved and env.tries_left:
            plan, action = env.expert.plan(), env.expert.action()
            assert action in plan[0] and 1 <= len(plan) <= env.tries_left
            env.step(action)
        assert env.expert.plan() == []


def test_it_says_when_nothing_can_be_done() -> None:
    env = WordleEnv()
    env.reset(seed=0)
    wrong = next(word for word in words.answers() if word != env.current_task.data)
    for _ in range(6):
        env.step(wrong)
    for ask in (env.expert.action, env.expert.plan):
        with pytest.raises(NoPlanError, match="reset"):
            ask()


def test_it_plays_the_lmrl_rules_too() -> None:
    vocabulary = words.answers()[:300]
    env = WordleEnv(rules="lmrl", vocabulary=vocabulary)
    played = []
    for seed in range(100):
        env.reset(seed=seed)
        played.append(tries(env))
    assert sum(n <= 6 for n in played) >= 99
