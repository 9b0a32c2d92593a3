"""The TextCraft expert: from what is wanted and what is in stock to the commands that are left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from adaplan_envs.errors import NoPlanError
from adaplan_envs.textcraft.recipes import Recipe, RecipeBook, amounts, load_book

Stock = Mapping[str, int]


Choices = dict[str, int]
"""Item -> which of its recipes, tag -> which of its kinds; 0 where nothing is said."""


@dataclass(slots=True)
class _Craft:
    recipe: Recipe
    batches: int
    picks: dict[str, list[tuple[str, int]]] | None = None
    """Tag -> what to take for it: for each batch under ``agentgym``, else for all batches together."""


@dataclass(slots=True)
class _Plan:
    gets: list[tuple[str, int]]
    crafts: list[_Craft]
    length: int
    """Number of commands."""


class Planner:
    """Plans over the recipe graph: one pass from the goal down to what can be got.

    Needs are added up before an item's turn comes, so everything is made once, in one amount, and what is in stock
    is used first. Which recipe and which kind to take is found by changing one choice at a time while the plan gets
    shorter.
    """

    def __init__(self, book: RecipeBook, ruleset: str) -> None:
        self._makers = book.makers
        self._kinds = book.kinds(ruleset)
        self._one_batch = ruleset == "agentgym"
        self._ranks: dict[str, int] = {}
        self._orders: dict[str, list[tuple[str, bool]]] = {}
        self._usual: dict[str, tuple[Choices, list[tuple[str, bool]], int]] = {}

    def commands(self, goal: str, stock: Stock) -> list[tuple[str, str]]:
        """Return the remaining commands, each with the same in words."""
        plan, _ = self._improve(goal, stock, self._from_nothing(goal)[0])
        steps = [(f"get {amount} {name}", f"Get {amount} {name}.") for name, amount in plan.gets]
        for craft in reversed(plan.crafts):
            for batch in range(craft.batches if self._one_batch else 1):
                used = amounts(self._ingredients(craft, batch))
                made = f"{craft.recipe.count * (1 if self._one_batch else craft.batches)} {craft.recipe.output}"
                steps.append((f"craft {made} using {used}", f"Craft {made} from {used}."))
        return steps

    def left(self, goal: str, stock: Stock) -> int:
        """Return the number of remaining commands, with the choices that are best from an empty inventory."""
        choices, order, _ = self._from_nothing(goal)
        return self._solve(goal, stock, choices, order).length

    def total(self, goal: str) -> int:
        """Return the number of commands from an empty inventory."""
        return self._from_nothing(goal)[2]

    def _from_nothing(self, goal: str) -> tuple[Choices, list[tuple[str, bool]], int]:
        """Return the best choices from an empty inventory, the nodes that they touch, and the plan's length."""
        if goal not in self._usual:
            plan, choices = self._improve(goal, {}, {})
            crafted = {craft.recipe.output for craft in plan.crafts}
            touched = crafted.union(name for name, _ in plan.gets)
            touched.update(name for craft in plan.crafts for name, _ in craft.recipe.ingredients)
            order = [node for node in self._order(goal) if node[0] in touched]
            self._usual[goal] = choices, order, plan.length
        return self._usual[goal]

    def _improve(self, goal: str, stock: Stock, choices: Choices) -> tuple[_Plan, Choices]:
        order = self._order(goal)
        best = self._solve(goal, stock, choices, order)
        improved = True
        while improved:
            improved = False
            for name, count in self._open_choices(best):
                for option in range(count):
                    changed = {**choices, name: option}
                    if changed != choices and (plan := self._solve(goal, stock, changed, order)).length < best.length:
                        best, choices, improved = plan, changed, True
        return best, choices

    def _open_choices(self, plan: _Plan) -> list[tuple[str, int]]:
        """Return each item and tag of `plan` that could be had in several ways, and in how many."""
        found: dict[str, int] = {}
        for craft in plan.crafts:
            found[craft.recipe.output] = len(self._makers[craft.recipe.output])
            found.update((tag, len(self._kinds[tag])) for tag in craft.picks or ())
        return [(name, count) for name, count in found.items() if count > 1]

    def _solve(self, goal: str, stock: Stock, choices: Choices, order: list[tuple[str, bool]]) -> _Plan:
        need = {goal: 1 + stock.get(goal, 0)}
        takers: dict[str, list[_Craft]] = {}
        gets: list[tuple[str, int]] = []
        crafts: list[_Craft] = []
        length = 0
        for name, is_tag in order:
            if is_tag:
                for craft in takers.get(name, ()):
                    self._pick(craft, name, choices.get(name, 0), need, stock)
                continue
            missing = need.get(name, 0) - stock.get(name, 0)
            if missing <= 0:
                continue
            recipes = self._makers.get(name)
            if recipes is None:
                gets.append((name, missing))
                continue
            recipe = recipes[choices.get(name, 0)]
            batches = -(-missing // recipe.count)
            craft = _Craft(recipe, batches)
            crafts.append(craft)
            length += batches if self._one_batch else 1
            for ingredient, amount in recipe.ingredients:
                if ingredient in self._kinds:
                    takers.setdefault(ingredient, []).append(craft)
                else:
                    need[ingredient] = need.get(ingredient, 0) + amount * batches
        return _Plan(gets, crafts, length + len(gets))

    def _pick(self, craft: _Craft, tag: str, choice: int, need: dict[str, int], stock: Stock) -> None:
        """Choose items for `tag`: those in stock that nothing else needs, then the kind of `choice`."""
        amount = next(amount for name, amount in craft.recipe.ingredients if name == tag)
        kinds = self._kinds[tag]
        picks: list[tuple[str, int]] = []
        for portion in [amount] * craft.batches if self._one_batch else [amount * craft.batches]:
            rest = portion
            for kind in [kind for kind in kinds if kind in stock]:
                spare = stock[kind] - need.get(kind, 0)
                if spare >= (portion if self._one_batch else 1):
                    taken = min(spare, rest)
                    need[kind] = need.get(kind, 0) + taken
                    picks.append((kind, taken))
                    rest -= taken
                    if not rest:
                        break
            if rest:
                need[kinds[choice]] = need.get(kinds[choice], 0) + rest
                picks.append((kinds[choice], rest))
        craft.picks = {**(craft.picks or {}), tag: picks}

    def _ingredients(self, craft: _Craft, batch: int) -> list[tuple[str, int]]:
        chosen: dict[str, int] = {}
        for name, amount in craft.recipe.ingredients:
            if craft.picks is None or name not in craft.picks:
                picks = [(name, amount if self._one_batch else amount * craft.batches)]
            else:
                picks = [craft.picks[name][batch]] if self._one_batch else craft.picks[name]
            for kind, taken in picks:
                chosen[kind] = chosen.get(kind, 0) + taken
        return list(chosen.items())

    def _rank(self, name: str) -> int:
        """Return the length of the longest way down from `name`; an item never needs one of its own rank or above."""
        if name not in self._ranks:
            ingredients = {ingredient for recipe in self._makers.get(name, ()) for ingredient, _ in recipe.ingredients}
            below = [kind for ingredient in ingredients for kind in self._kinds.get(ingredient, (ingredient,))]
            self._ranks[name] = max([1 + self._rank(kind) for kind in below], default=0)
        return self._ranks[name]

    def _order(self, goal: str) -> list[tuple[str, bool]]:
        """Return everything that may have a part in making `goal`, each before what it is made of; (name, is a tag).

        A tag that can be got stands in it twice: as the tag, and further down as the item of that name.
        """
        if goal not in self._orders:
            ranks = {(goal, False): self._rank(goal)}
            waiting = [goal]
            while waiting:
                for recipe in self._makers.get(waiting.pop(), ()):
                    for ingredient, _ in recipe.ingredients:
                        kinds = self._kinds.get(ingredient)
                        if kinds is not None:
                            ranks[ingredient, True] = max(map(self._rank, kinds))
                        for kind in kinds or (ingredient,):
                            if (kind, False) not in ranks:
                                ranks[kind, False] = self._rank(kind)
                                waiting.append(kind)
            self._orders[goal] = sorted(ranks, key=lambda node: (-ranks[node], not node[1], node[0]))
        return self._orders[goal]


@cache
def load_planner(ruleset: str) -> Planner:
    """Return the planner of a ruleset; all environments share it."""
    return Planner(load_book(), ruleset)


class TextCraftExpert:
    """Follows the planner from the current inventory."""

    def __init__(self, planner: Planner, now: Callable[[], tuple[str, Stock, bool]]) -> None:
        """`now` returns the goal, the inventory and whether the goal is reached."""
        self._planner, self._now = planner, now

    def _commands(self) -> list[tuple[str, str]]:
        goal, stock, reached = self._now()
        return [] if reached else self._planner.commands(goal, stock)

    def plan(self) -> list[str]:
        """Return the remaining steps in words; empty once the goal is reached."""
        return [words for _, words in self._commands()]

    def action(self) -> str:
        """Return the next command.

        Raises:
            NoPlanError: the goal is reached already.
        """
        commands = self._commands()
        if not commands:
            raise NoPlanError("the goal is reached: there is nothing left to do")
        return commands[0][0]
