"""Teachers to imitate: what they do follows from what the player could know."""

from __future__ import annotations

import random
import re
from itertools import pairwise

import gymnasium
import pytest

from adaplan_envs.core import TextEnv
from adaplan_envs.wordle.marking import mark
from adaplan_training.teachers import make_teacher


def played(env_id: str, index: int, seed: int = 0) -> tuple[list[str], list[str], bool]:
    """Return the observations and the commands of an episode that a teacher plays, and whether it succeeds."""
    env = gymnasium.make(env_id)
    base = env.unwrapped
    assert isinstance(base, TextEnv)
    observation, info = env.reset(seed=0, options={"task_id": base.task_id("test", index)})
    teacher = make_teacher(base, random.Random(seed))
    seen, commands, over = [observation], [], False
    while not over:
        commands.append(teacher.action())
        observation, _, terminated, truncated, info = env.step(commands[-1])
        seen.append(observation)
        over = terminated or truncated
    return seen, commands, info["success"]


@pytest.mark.parametrize("env_id", ["AdaPlan/ALFWorld-v0", "AdaPlan/IQA-v0", "AdaPlan/Maze-v0", "AdaPlan/TextCraft-v0"])
def test_teachers_succeed(env_id: str) -> None:
    assert all(played(env_id, index)[2] for index in range(12))


def test_the_searcher_takes_only_what_it_has_been_told_of() -> None:
    for index in range(12):
        seen, commands, _ = played("AdaPlan/ALFWorld-v0", index)
        for turn, command in enumerate(commands):
            if match := re.fullmatch(r"take (.+) from (.+)", command):
                assert any(re.search(rf"\b{match[1]}\b", text) for text in seen[1 : turn + 1])
            if match := re.fullmatch(r"go to (.+)", command):
                assert re.search(rf"\b{match[1]}\b", seen[0])


def test_the_searcher_looks_in_the_order_in_which_the_room_was_described() -> None:
    jumps = ordered = 0
    for index in range(12):
        seen, commands, _ = played("AdaPlan/ALFWorld-v0", index)
        listed = re.findall(r"an? ([a-z]+ \d+)", seen[0].partition("Your task")[0])
        visits = [command.removeprefix("go to ") for command in commands if command.startswith("go to")]
        for before, after in pairwise(visits):
            following = listed[(listed.index(before) + 1) % len(listed)]
            ordered += after == following
            jumps += after != following
    assert ordered > jumps


def test_the_walker_comes_back_to_a_cell_only_when_all_around_was_visited() -> None:
    for index in range(20):
        seen, commands, _ = played("AdaPlan/Maze-v0", index)
        cells = [tuple(map(int, re.findall(r"\d+", text)[:2])) for text in seen[:-1]]
        for turn in range(1, len(cells)):
            row, column = cells[turn - 1]
            if cells[turn] in cells[:turn]:
                walls = seen[turn - 1].partition("Walls: ")[2].rstrip(".").split(", ")
                sides = {"right": (0, 1), "left": (0, -1), "above": (-1, 0), "below": (1, 0)}
                free = {(row + down, column + right) for side, (down, right) in sides.items() if side not in walls}
                assert free <= set(cells[:turn])
        assert len(commands) <= 100


def test_the_speller_writes_letters_and_contradicts_no_mark() -> None:
    games = [played("AdaPlan/Wordle-v0", index) for index in range(12)]
    assert sum(success for *_, success in games) >= 10
    for seen, commands, _ in games:
        assert all(re.fullmatch(r"[a-z]( [a-z]){4}", command) for command in commands)
        words = [command.replace(" ", "") for command in commands]
        told = [
            "".join(
                {"gray": "b", "yellow": "y", "green": "g"}[colour] for colour in re.findall("gray|yellow|green", text)
            )
            for text in seen[1:-1]
        ]
        for turn in range(1, len(words)):
            for earlier in range(turn):
                assert mark(words[earlier], words[turn]) == told[earlier]


def test_the_explorer_answers_soon() -> None:
    lengths = [len(played("AdaPlan/IQA-v0", index)[1]) for index in range(12)]
    assert max(lengths) == 9


def test_the_choices_follow_from_the_seed() -> None:
    first, again, other = (played("AdaPlan/Wordle-v0", 3, seed)[1] for seed in (1, 1, 2))
    assert first == again != other
