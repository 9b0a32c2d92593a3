"""TextCraft: recorded runs, tasks, both rulesets."""

from __future__ import annotations

import json
import re
from typing import Any

import gymnasium
import pytest

from adaplan_envs.errors import UnknownNameError
from adaplan_envs.textcraft.recipes import load_book
from adaplan_envs.textcraft.tasks import goals
from tests.conftest import FIXTURES

OUTCOMES = [
    ("got", r"Got "),
    ("crafted", r"Crafted "),
    ("inventory", r"You have "),
    ("not_found", r"Not possible: .* is not to be found\."),
    ("no_items", r"Not possible: you lack ingredients\."),
    ("no_recipe", r"Not possible: no recipe makes "),
    ("bad_format", r"Not understood: the ingredient "),
    ("unparsed", r"Not understood: "),
]
"""Outcome kind of the recordings -> how the observation begins here; the first that fits."""


FROZEN = {
    "textcraft/train/0000": "purple terracotta",
    "textcraft/train/0399": "lime carpet",
    "textcraft/test/0000": "green bed",
    "textcraft/test/0073": "jungle planks",
    "textcraft/agentgym/0031": "flint and steel",
}


def make(**options: Any) -> Any:
    return gymnasium.make("AdaPlan/TextCraft-v0", **options).unwrapped


def start(env: Any, goal: str, seed: int = 0) -> tuple[str, dict[str, Any]]:
    found: tuple[str, dict[str, Any]] = env.reset(
        seed=seed, options={"task_id": f"textcraft/goal/{goal.replace(' ', '_')}"}
    )
    return found


def say(env: Any, *actions: str) -> tuple[str, dict[str, Any]]:
    """Play `actions`; return the last observation and info."""
    for action in actions:
        observation, _, _, _, info = env.step(action)
    return observation, info


def kind(observation: str, info: dict[str, Any]) -> str:
    if info["success"]:
        return "final"
    return next(name for name, pattern in OUTCOMES if re.match(pattern, observation))


def test_recorded_agentgym_episodes_replay_exactly(recorded: Any) -> None:
    env = make(rules="agentgym")
    played = 0
    for episode in recorded("textcraft.jsonl"):
        if "skip" in episode:
            continue
        start(env, episode["goal"])
        assert env.current_task.difficulty == episode["depth"]
        for step in episode["steps"]:
            observation, info = say(env, step["a"])
            assert kind(observation, info) == step["k"], (episode["id"], step)
            assert info["inventory"] == step.get("inventory", info["inventory"]), (episode["id"], step)
        assert info["success"]
        played += 1
    assert played == 239


def test_agentgym_tasks_have_the_recorded_goal_and_depth() -> None:
    path = FIXTURES / "textcraft_goal_index.json"
    if not path.exists():
        pytest.skip(f"recorded goals not at hand: {path}")
    env = make()
    index = json.loads(path.read_text())
    assert len(index) == env.splits["agentgym"]
    for number, (goal, depth) in index.items():
        task = env.task(f"textcraft/agentgym/{int(number):04d}")
        assert (task.data, task.difficulty) == (goal.replace("_", " "), depth)


def test_the_splits_have_their_sizes_and_train_and_test_share_no_goal() -> None:
    env = make()
    for split, size in {"train": 400, "test": 74, "agentgym": 374}.items():
        tasks = [env.task(task_id) for task_id in env.task_ids(split)]
        assert [task.index for task in tasks] == list(range(size))
        assert [task.id for task in tasks] == env.task_ids(split)
        assert len({task.data for task in tasks}) == size
    assert not set(goals("train")) & set(goals("test"))


def test_task_ids_stay_what_they_are() -> None:
    """A frozen sample: a change here changes every published result."""
    env = make()
    assert {task_id: env.task(task_id).data for task_id in FROZEN} == FROZEN


@pytest.mark.parametrize(
    ("task_id", "hint"),
    [
        ("textcraft/goal/flint_and_steal", "flint_and_steel"),
        ("textcraft/agentgym/0000", "textcraft/agentgym/0031"),
        ("textcraft/agentgym/x", "textcraft/agentgym/0031"),
        ("textcraft/test/0074", "textcraft/test/0073"),
        ("textcraft/tests/0001", "test"),
        ("maze/test/0001", "textcraft/test/0073"),
    ],
)
def test_a_wrong_task_id_is_answered_with_valid_ones(task_id: str, hint: str) -> None:
    with pytest.raises(UnknownNameError, match=hint):
        make().reset(options={"task_id": task_id})


def test_a_task_shows_its_whole_recipe_closure_and_at_most_ten_distractors_that_share_an_ingredient() -> None:
    env, book = make(), load_book()
    for goal in book.goals:
        observation, _ = start(env, goal)
        shown = observation.partition("\n\n")[0].splitlines()[1:]
        needed = {recipe.command for recipe in book.closure(goal)}
        assert needed <= set(shown)
        assert len(shown) == len(set(shown)) <= len(needed) + 10
        ingredients = {name for recipe in book.closure(goal) for name, _ in recipe.ingredients}
        commands = {recipe.command: recipe for recipe in book.recipes}
        for command in set(shown) - needed:
            assert ingredients & {name for name, _ in commands[command].ingredients}


def test_the_seed_orders_the_recipes_and_the_task_chooses_them() -> None:
    env = make()
    first, again, other = (start(env, "torch", seed)[0] for seed in (1, 1, 2))
    assert first == again != other
    assert sorted(first.splitlines()) == sorted(other.splitlines())


@pytest.mark.parametrize(
    ("actions", "observation", "status"),
    [
        (["GET 2  Iron_Ingots."], "Got 2 iron ingot.", "ok"),
        (["get coal"], "Got 1 coal.", "ok"),
        (["get charcoal"], "Got 1 charcoal.", "ok"),
        (["get 1 oaklog"], "Not possible: no item is called 'oaklog'.", "invalid"),
        (["get 1 stick"], "Not possible: stick has to be crafted.", "invalid"),
        (["get 1 wool"], "Not possible: wool stands for several items, which have to be crafted.", "invalid"),
        (["get 1 coal, 2 flint"], "Not possible: get one kind of item at a time.", "invalid"),
        (["get 0 coal"], "Not possible: the amount must be at least 1.", "invalid"),
        (["get 1 unobtainium"], "Not possible: no item is called 'unobtainium'.", "invalid"),
        (["craft 1 coal using 1 flint"], "Not possible: no recipe makes coal: get it.", "invalid"),
        (["craft 1 unobtainium using 1 flint"], "Not possible: no item is called 'unobtainium'.", "invalid"),
        (["craft 1 stick using 1 unobtainium"], "Not possible: no item is called 'unobtainium'.", "invalid"),
        (
            ["craft 1 planks using 1 oak logs"],
            "Not possible: planks stands for several items: name the one to craft.",
            "invalid",
        ),
        (["craft 4 stick using 3 bamboo"], "Not possible: no recipe makes stick from 3 bamboo.", "invalid"),
        (
            ["get 2 bamboo", "craft 2 stick using 2 bamboo"],
            "Not possible: these ingredients make 1 stick, not 2.",
            "invalid",
        ),
        (["get 1 bamboo", "craft 1 stick using 2 bamboo"], "Not possible: you lack 1 bamboo.", "invalid"),
        (["get 6 bamboo", "craft 3 sticks using 6 bamboo"], "Crafted 3 stick.", "ok"),
        (["get 1 oak log", "craft oak planks using oak log"], "Crafted 4 oak planks.", "ok"),
        (["get 3 oak logs", "get 4 sticks"], "Not possible: stick has to be crafted.", "invalid"),
        (["craft 1 stick using ,"], "Not understood: an ingredient is missing.", "unparsed"),
        (["craft"], "Not understood: 'craft'.", "unparsed"),
        (["inventory"], "You have nothing.", "ok"),
        (["get 2 coal", "get 1 flint", "get 1 coal", "inventory"], "You have 3 coal, 1 flint.", "ok"),
    ],
)
def test_default_rules(actions: list[str], observation: str, status: str) -> None:
    env = make()
    start(env, "painting")
    seen, info = say(env, *actions)
    assert seen.startswith(observation)
    assert info["action_status"] == status


def test_default_rules_mix_the_kinds_of_a_tag_as_minecraft_does() -> None:
    env = make()
    start(env, "campfire")
    say(env, "get 1 oak log", "get 1 birch logs", "craft 1 oak planks using 1 oak log")
    say(env, "craft 1 birch planks using 1 birch logs")
    observation, info = say(env, "craft 8 stick using 3 oak planks, 1 birch planks")
    assert observation == "Crafted 8 stick."
    assert info["inventory"] == {"oak planks": 1, "birch planks": 3, "stick": 8}
    say(env, "get 1 charcoal", "get 1 oak logs", "get 1 spruce log", "get 1 crimson stem")
    _, info = say(env, "craft 1 campfire using 3 stick, 1 charcoal, 1 oak logs, 1 spruce log and 1 crimson stem")
    assert info["success"]


def test_an_item_with_and_in_its_name_is_one_item() -> None:
    env = make()
    start(env, "flint and steel")
    _, info = say(env, "get 1 iron ingot", "get 1 flint", "craft flint and steel using 1 iron ingot and 1 flint")
    assert info["success"]


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        (["get coal"], "unparsed"),
        (["get 1 iron ingots"], "not_found"),
        (["get 1 charcoal"], "not_found"),
        (["get 1 planks"], "not_found"),
        (["get 3 wooden slabs"], "got"),
        (["get 1 iron_ingot"], "got"),
        (["inventory please"], "inventory"),
        (["craft 1 stick using bamboo"], "bad_format"),
        (["craft 9 unobtainium using 1 flint"], "no_items"),
        (["get 1 flint", "craft 9 unobtainium using 1 flint"], "no_recipe"),
        (["get 1 oak log", "craft 4 oak planks using 1 oak log"], "no_recipe"),
        (["get 4 bamboo", "craft 2 stick using 4 bamboo"], "no_recipe"),
        (["get 2 bamboo", "craft 99 stick using 2 bamboo"], "crafted"),
        (["get 2 bamboo", "craft stick using 2 bamboo"], "crafted"),
        (["get 1 bamboo", "craft 1 stick using 1 bamboo, 1 bamboo"], "no_recipe"),
        (["get 1 kelp", "craft 1 stick using 2 bamboo, 1 kelp"], "no_items"),
    ],
)
def test_agentgym_rules_keep_the_quirks_of_the_reference(actions: list[str], expected: str) -> None:
    env = make(rules="agentgym")
    start(env, "painting")
    assert kind(*say(env, *actions)) == expected


def test_agentgym_rules_want_one_kind_of_plank_in_one_amount() -> None:
    env = make(rules="agentgym")
    start(env, "painting")
    say(env, "get 1 oak logs", "get 1 birch logs", "craft 1 oak planks using 1 oak logs")
    say(env, "craft 1 birch planks using 1 birch logs")
    assert kind(*say(env, "craft 4 stick using 1 oak planks, 1 birch planks")) == "no_recipe"
    observation, info = say(env, "craft 1 stick using 2 birch planks")
    assert observation == "Crafted 4 stick."
    assert info["inventory"] == {"oak planks": 4, "birch planks": 2, "stick": 4}


def test_white_wool_is_wool_in_minecraft_but_not_in_the_reference() -> None:
    for rules, success in (("default", True), ("agentgym", False)):
        env = make(rules=rules)
        start(env, "painting")
        say(env, "get 16 bamboo", "get 4 string", "craft 1 white wool using 4 string")
        say(env, *["craft 1 stick using 2 bamboo"] * 8)
        assert say(env, "craft 1 painting using 8 stick, 1 white wool")[1]["success"] is success


def test_render_shows_goal_and_inventory() -> None:
    env = make(render_mode="ansi")
    start(env, "torch")
    say(env, "get 2 coal")
    assert env.render() == "Goal: craft torch. You have 2 coal.\nGot 2 coal."
