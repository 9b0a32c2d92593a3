"""TextCraft's recipe file and the way names are read."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from adaplan_envs.textcraft.names import every_name, load_names
from adaplan_envs.textcraft.recipes import load_book
from tests.conftest import load_script


def test_the_shipped_recipes_are_what_the_script_builds() -> None:
    pytest.importorskip("minecraft_data", reason="pip install minecraft-data")
    script = load_script("build_textcraft_recipes")
    assert "\n".join(script.lines(script.build())) == Path(script.TARGET).read_text(encoding="utf-8")


def test_there_are_544_goals_of_the_published_depths() -> None:
    book = load_book()
    assert Counter(map(book.depth, book.goals)) == {1: 140, 2: 280, 3: 113, 4: 11}


def test_recipes_are_distinct_and_none_takes_a_block_apart() -> None:
    recipes = load_book().recipes
    assert len(recipes) == len({recipe.command for recipe in recipes}) == 612
    for recipe in recipes:
        names = [name for name, _ in recipe.ingredients]
        assert len(names) > 1 or not names[0].endswith(" block")
        assert recipe.count > 0 and all(amount > 0 for _, amount in recipe.ingredients)


def test_cycles_are_broken_the_agreed_way() -> None:
    book = load_book()
    assert [recipe.command for recipe in book.makers["gold ingot"]] == ["craft 1 gold ingot using 9 gold nugget"]
    assert [recipe.command for recipe in book.makers["iron nugget"]] == ["craft 9 iron nugget using 1 iron ingot"]
    assert "craft 4 honey bottle using 4 glass bottle, 1 honey block" in {
        recipe.command for recipe in book.makers["honey bottle"]
    }
    assert not {"gold nugget", "iron ingot", "honey block"} & set(book.makers)


@pytest.mark.parametrize("ruleset", ["default", "agentgym"])
def test_no_recipe_has_two_ingredients_that_the_same_item_could_be(ruleset: str) -> None:
    book = load_book()
    kinds = book.kinds(ruleset)
    for recipe in book.recipes:
        accepted = [item for name, _ in recipe.ingredients for item in kinds.get(name, (name,))]
        assert len(accepted) == len(set(accepted)), recipe


def test_every_item_of_the_recipe_file_is_spelled_in_words() -> None:
    text = json.dumps(sorted(every_name(load_book())))
    assert "_" not in text and text == text.lower()


def test_names_are_found_as_written_in_the_plural_and_in_one_word() -> None:
    names = load_names()
    everything = every_name(load_book())
    for name in everything:
        assert names.find(name) == name
        # Of two items that differ in the plural alone, such as brick and bricks, only the exact names will do.
        twin = name + "s" in everything or (name.endswith("s") and name[:-1] in everything)
        for variant in (name.replace(" ", "_"), name + "s", name.replace(" ", "")):
            if variant not in everything and not variant.endswith("ss"):
                assert names.find(variant) == (None if twin else name), variant
    for written, meant in {
        "torches": "torch",
        "poppies": "poppy",
        "bookshelves": "bookshelf",
        "crafting-table": "crafting table",
        "iron ingots": "iron ingot",
        "oak plank": "oak planks",
        "pickaxe": None,
        "": None,
        "s": None,
    }.items():
        assert names.find(written) == meant
