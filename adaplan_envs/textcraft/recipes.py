"""The crafting recipes of the game: what makes what, which items stand for a tag, how deep a goal is.

Items are called by their names in words (``oak planks``). A **tag** (``planks``, ``oak logs``) is an ingredient that
several items can stand for; a tag that is no **group** may also be got as an item of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from adaplan_envs.core import stable_rng

MAX_DISTRACTORS = 10


@dataclass(frozen=True, slots=True)
class Recipe:
    """One recipe: `ingredients`, pairs of name and amount, make `count` of `output`."""

    output: str
    count: int
    ingredients: tuple[tuple[str, int], ...]
    command: str
    """The action that plays it, as a task shows it."""


def amounts(items: Iterable[tuple[str, int]]) -> str:
    """Return ``2 stick, 3 iron ingot``."""
    return ", ".join([f"{amount} {name}" for name, amount in items])


def words(name: str) -> str:
    """Return the name in words of a Minecraft id: ``oak_planks`` -> ``oak planks``."""
    return name.replace("_", " ")


class RecipeBook:
    """All recipes, and what follows from them. One object serves every environment; it never changes."""

    def __init__(self, content: Mapping[str, object]) -> None:
        rows: list[tuple[str, int, dict[str, int]]] = content["recipes"]  # type: ignore[assignment]
        tags: dict[str, list[str]] = content["tags"]  # type: ignore[assignment]
        groups: dict[str, list[str]] = content["groups"]  # type: ignore[assignment]
        others: list[str] = content["other_items"]  # type: ignore[assignment]
        self.tags = {words(tag): tuple(map(words, members)) for tag, members in tags.items()}
        """Tag -> the items that Minecraft takes for it."""
        self.groups = {words(tag): tuple(map(words, members)) for tag, members in groups.items()}
        """Group -> the items that the reference takes for it."""
        self.makers: dict[str, tuple[Recipe, ...]] = {}
        """Item -> its recipes."""
        for output, count, ingredients in rows:
            need = tuple((words(name), amount) for name, amount in ingredients.items())
            name = words(output)
            recipe = Recipe(name, count, need, f"craft {count} {name} using {amounts(need)}")
            self.makers[name] = (*self.makers.get(name, ()), recipe)
        self.recipes = tuple(recipe for recipes in self.makers.values() for recipe in recipes)
        self.goals = tuple(sorted(self.makers))
        used = {name for recipe in self.recipes for name, _ in recipe.ingredients}
        self.items = frozenset(used.union(self.makers, map(words, others)).difference(self.groups))
        """Everything that an inventory may hold by the reference's rules."""
        self._uses: dict[str, list[Recipe]] = {}
        for recipe in self.recipes:
            for name, _ in recipe.ingredients:
                self._uses.setdefault(name, []).append(recipe)
        self._depths: dict[str, int] = {}

    def recipes_for(self, name: str) -> tuple[Recipe, ...]:
        """Return the recipes of an item, or of all items of a group; empty for what can only be got."""
        members = self.groups.get(name, (name,))
        return tuple(recipe for member in members for recipe in self.makers.get(member, ()))

    def depth(self, name: str) -> int:
        """Return how many recipes deep `name` is: 0 if it can be got, else the least over its recipes."""
        if name not in self._depths:
            depths = [
                1 + max(self.depth(ingredient) for ingredient, _ in recipe.ingredients)
                for recipe in self.recipes_for(name)
            ]
            self._depths[name] = min(depths, default=0)
        return self._depths[name]

    def kinds(self, ruleset: str) -> dict[str, tuple[str, ...]]:
        """Return tag -> the items that a recipe takes for it. By default all that Minecraft does, in any mixture.

        Under ``agentgym`` only the two groups have kinds. By default a tag that can be got stands for itself and for
        every tag around it (``oak logs`` for ``logs``).
        """
        if ruleset == "agentgym":
            return self.groups
        gettable = [tag for tag in self.tags if tag in self.items]
        return {
            tag: (*(other for other in gettable if set(self.tags[other]) <= set(members)), *members)
            for tag, members in self.tags.items()
        }

    def closure(self, goal: str) -> tuple[Recipe, ...]:
        """Return every recipe that can have a part in making `goal`, those of `goal` first."""
        found: dict[Recipe, None] = {}
        waiting, seen = [goal], {goal}
        while waiting:
            for recipe in self.recipes_for(waiting.pop()):
                found[recipe] = None
                for name, _ in recipe.ingredients:
                    if name not in seen:
                        seen.add(name)
                        waiting.append(name)
        return tuple(found)

    @cache  # noqa: B019 - there is one book
    def shown(self, goal: str) -> tuple[Recipe, ...]:
        """Return the recipes of a task: the closure of `goal` and up to ten others that share an ingredient."""
        closure = self.closure(goal)
        names = dict.fromkeys(name for recipe in closure for name, _ in recipe.ingredients)
        others = {recipe.command: recipe for name in names for recipe in self._uses[name] if recipe not in closure}
        commands = stable_rng("textcraft distractors", goal).sample(sorted(others), min(len(others), MAX_DISTRACTORS))
        return (*closure, *(others[command] for command in commands))


@cache
def load_book() -> RecipeBook:
    """Return the recipes that come with the package (Minecraft 1.16.5)."""
    text = (files("adaplan_envs.textcraft") / "data" / "recipes.json").read_text(encoding="utf-8")
    return RecipeBook(json.loads(text))
