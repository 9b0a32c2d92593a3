"""Wordle's word lists: frozen, and rebuilt byte for byte by the script that made them."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

from adaplan_envs.wordle import words
from adaplan_envs.wordle.env import WordleEnv

ROOT = Path(__file__).parent.parent.parent
DATA = ROOT / "adaplan_envs" / "wordle" / "data"


def test_lists_have_the_promised_sizes_and_form() -> None:
    answers, guesses = words.answers(), words.guesses()
    assert len(answers) == len(set(answers)) == 2300
    assert len(guesses) >= 10_000 and guesses >= set(answers)
    assert all(re.fullmatch("[a-z]{5}", word) for word in guesses)


def test_splits_are_disjoint_and_of_the_papers_sizes() -> None:
    env = WordleEnv()
    hidden = {split: {env.task(task_id).data for task_id in env.task_ids(split)} for split in env.splits}
    assert {split: len(found) for split, found in hidden.items()} == {"train": 860, "test": 95}
    assert not hidden["train"] & hidden["test"]
    assert hidden["train"] | hidden["test"] <= set(words.answers())


def test_answers_hold_no_plural_of_a_four_letter_noun() -> None:
    for plural in ("trees", "cars", "games", "words", "books", "boxes", "skies", "times", "hands"):
        assert plural not in words.answers()
    for singular in ("chaos", "glass", "focus", "virus"):
        assert singular in words.answers()


def test_answers_hold_no_names() -> None:
    for name in ("peter", "james", "china", "japan", "paris", "jimmy", "texas", "honda", "laura", "brian"):
        assert name not in words.answers()


def test_neighbours_count_answers_that_differ_in_one_letter() -> None:
    answers = words.answers()
    for word in answers[:20]:
        close = sum(sum(a != b for a, b in zip(word, other, strict=True)) == 1 for other in answers)
        assert words.neighbours(word) == close


@pytest.mark.slow
def test_the_script_rebuilds_the_shipped_files_byte_for_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wordfreq")
    pytest.importorskip("english_words")
    monkeypatch.setattr(sys, "path", [str(ROOT / "scripts"), *sys.path])
    built = import_module("build_wordle_words").build()
    assert {name: text.encode() for name, text in built.items()} == {
        name: (DATA / name).read_bytes() for name in ("answers.txt", "guesses.txt")
    }
