"""Build adaplan_envs/textcraft/data/recipes.json from the PyPI package `minecraft-data` (Minecraft 1.16.5).

Run by a developer, once: ``python scripts/build_textcraft_recipes.py`` (``pip install minecraft-data``). The package
lists a recipe once for every item that may stand in an ingredient's place; here these variants become one recipe
again, whose ingredient is the tag that stands for all of them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parent.parent / "adaplan_envs" / "textcraft" / "data" / "recipes.json"
VERSION = "1.16.5"

OVERWORLD_WOODS = ("oak", "spruce", "birch", "jungle", "acacia", "dark_oak")
NETHER_WOODS = ("crimson", "warped")
COLOURS = (
    *("white", "orange", "magenta", "light_blue", "yellow", "lime", "pink", "gray"),
    *("light_gray", "cyan", "purple", "blue", "brown", "green", "red", "black"),
)

Ingredients = frozenset[tuple[str, int]]
"""(item or tag, amount) of one recipe; recipes are multisets, where things lie on the grid does not matter."""


def tag_members() -> dict[str, list[str]]:
    """Return tag -> items that Minecraft takes for it."""
    tags = {
        f"{wood}_logs": [f"{wood}_log", f"{wood}_wood", f"stripped_{wood}_log", f"stripped_{wood}_wood"]
        for wood in OVERWORLD_WOODS
    }
    tags |= {
        f"{wood}_stems": [f"{wood}_stem", f"{wood}_hyphae", f"stripped_{wood}_stem", f"stripped_{wood}_hyphae"]
        for wood in NETHER_WOODS
    }
    tags["logs"] = [member for members in tags.values() for member in members]
    tags["planks"] = [f"{wood}_planks" for wood in OVERWORLD_WOODS + NETHER_WOODS]
    tags["wooden_slabs"] = [f"{wood}_slab" for wood in OVERWORLD_WOODS + NETHER_WOODS]
    tags["wool"] = [f"{colour}_wool" for colour in COLOURS]
    tags["stone_crafting_materials"] = ["cobblestone", "blackstone"]
    tags["stone_tool_materials"] = ["cobblestone", "blackstone"]
    tags["soul_fire_base_blocks"] = ["soul_sand", "soul_soil"]
    tags["coals"] = ["coal", "charcoal"]
    return tags


ONLY_IN = {"coals": {"campfire"}, "stone_crafting_materials": {"furnace", "brewing_stand"}}
"""Tags whose members appear together in other recipes too, but as a list of alternatives or as another tag."""

ALTERNATIVES = (
    ("coal", "charcoal"),
    ("purpur_block", "purpur_pillar"),
    ("chiseled_quartz_block", "quartz_block", "quartz_pillar"),
    ("red_sandstone", "chiseled_red_sandstone", "cut_red_sandstone"),
    ("sandstone", "chiseled_sandstone", "cut_sandstone"),
    ("sand", "red_sand"),
)
"""Lists of alternatives that are no tag: TextCraft knows only the first of each."""

CYCLES = (("gold_nugget", "gold_ingot"), ("iron_ingot", "iron_nugget"), ("honey_block", "honey_bottle"))
"""(output, input) of the recipes left out so that nothing is, in the end, made from itself."""

GROUPS = {"planks": (), "wool": ("white_wool",)}
"""Tags that can't be got, for their members are crafted -> members that the reference does not count among them."""


def variants(data: Any) -> dict[str, dict[Ingredients, int]]:
    """Return output -> ingredients -> amount made, tags expanded, as `minecraft-data` has them."""
    names = {item["id"]: item["name"] for item in data.items_list}
    found: dict[str, dict[Ingredients, int]] = {}
    for output, recipes in data.recipes.items():
        for recipe in recipes:
            cells = [cell for row in recipe.get("inShape", [recipe.get("ingredients")]) for cell in row]
            amounts = Counter(names[cell] for cell in cells if cell is not None)
            found.setdefault(names[int(output)], {})[frozenset(amounts.items())] = recipe["result"]["count"]
    return found


def collapse_tag(recipes: dict[Ingredients, int], tag: str, members: list[str]) -> None:
    """Where every member of `tag` has an otherwise equal recipe, put one with the tag in place of them all."""
    for ingredients in sorted(recipes, key=sorted):
        amount = dict(ingredients).get(members[0])
        if amount is None:
            continue
        rest = ingredients - {(members[0], amount)}
        same = [rest | {(member, amount)} for member in members]
        if all(recipe in recipes for recipe in same) and len({recipes[recipe] for recipe in same}) == 1:
            made = [recipes.pop(recipe) for recipe in same]
            recipes[rest | {(tag, amount)}] = made[0]


def keep_first(recipes: dict[Ingredients, int], alternatives: tuple[str, ...]) -> None:
    """Drop the recipes that differ from another only by a later item of `alternatives` in place of the first."""
    first = alternatives[0]
    for ingredients in list(recipes):
        for name, amount in ingredients:
            if name in alternatives[1:] and (ingredients - {(name, amount)}) | {(first, amount)} in recipes:
                del recipes[ingredients]
                break


def playable(output: str, ingredients: Ingredients) -> bool:
    """Return whether TextCraft has the recipe: not a block taken apart, and not one that would close a cycle."""
    names = {name for name, _ in ingredients}
    unpacking = len(names) == 1 and next(iter(names)).endswith("_block")
    return not unpacking and not (len(names) == 1 and (output, *names) in CYCLES)


def build() -> dict[str, Any]:
    """Return the content of recipes.json: recipes, tags and the items that occur in no recipe of the game."""
    import minecraft_data

    tags = tag_members()
    recipes: list[tuple[str, int, Mapping[str, int]]] = []
    mentioned: set[str] = set()
    for output, found in sorted(variants(minecraft_data(VERSION)).items()):
        for tag in sorted(tags, key=lambda tag: (-len(tags[tag]), tag)):
            if output in ONLY_IN.get(tag, {output}):
                collapse_tag(found, tag, tags[tag])
        for alternatives in ALTERNATIVES:
            keep_first(found, alternatives)
        for ingredients in sorted(found, key=sorted):
            mentioned |= {output} | {name for name, _ in ingredients}
            if playable(output, ingredients):
                recipes.append((output, found[ingredients], dict(sorted(ingredients))))
    outputs = {output for output, _, _ in recipes}
    used = outputs.union(*(names for _, _, names in recipes))
    return {
        "source": f"minecraft-data {VERSION}; see NOTICE.md",
        "recipes": recipes,
        "tags": {tag: members for tag, members in sorted(tags.items()) if tag in used},
        "groups": {tag: [name for name in tags[tag] if name not in left_out] for tag, left_out in GROUPS.items()},
        "other_items": sorted(mentioned - used),
    }


def lines(content: dict[str, Any]) -> Iterator[str]:
    """Yield `content` as JSON with one recipe, tag or list on a line, so that a change reads well in a diff."""
    yield "{"
    for position, (key, value) in enumerate(content.items()):
        end = "," if position < len(content) - 1 else ""
        if key in ("recipes", "tags", "groups"):
            rows = (
                [json.dumps(row) for row in value]
                if key == "recipes"
                else [f"{json.dumps(tag)}: {json.dumps(members)}" for tag, members in value.items()]
            )
            opening, closing = "[]" if key == "recipes" else "{}"
            yield f'"{key}": {opening}'
            yield ",\n".join(rows)
            yield f"{closing}{end}"
        else:
            yield f'"{key}": {json.dumps(value)}{end}'
    yield "}\n"


def main() -> None:
    """Write recipes.json."""
    content = build()
    TARGET.write_text("\n".join(lines(content)))
    print(f"{TARGET}: {len(content['recipes'])} recipes, {len(content['tags'])} tags")


if __name__ == "__main__":
    main()
