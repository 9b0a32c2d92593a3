"""TextCraft: craft an item from Minecraft recipes, by text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

from adaplan_envs.core import TextEnv, stable_rng
from adaplan_envs.errors import UnknownNameError
from adaplan_envs.textcraft.expert import TextCraftExpert, load_planner
from adaplan_envs.textcraft.facts import read_facts
from adaplan_envs.textcraft.names import load_names
from adaplan_envs.textcraft.recipes import Recipe, amounts, load_book, words
from adaplan_envs.textcraft.tasks import SIZES, agentgym_indices, goals
from adaplan_envs.types import ActionStatus, Outcome, Task

# Nine digits are more than enough, and a longer number may be too long for int().
_GET = re.compile(r"get (?:(\d{1,9}) )?(.+)", re.ASCII)
_CRAFT = re.compile(r"craft (?:(\d{1,9}) )?(.+?) using (.+)", re.ASCII)
_PART = re.compile(r"(?:(\d{1,9}) )?(.+)", re.ASCII)
_AND = re.compile(r" ?, ?(?:and )?| and (?=\d)")
"""Between ingredients; "flint and steel" is one item."""
# The reference asks for a match at the start only, and its first "(.*)" goes as far as it can.
_AGENTGYM_GET = re.compile(r"get (\d{1,9}) (.*)", re.ASCII)
_AGENTGYM_CRAFT = re.compile(r"craft (.*) using (.*)")
_AGENTGYM_PART = re.compile(r"(\d{1,9}) (.*)", re.ASCII)

_SYNTAX = """\
Actions, one at a time:
- get N ITEM: fetch N of an item that can't be crafted, such as: get 2 oak logs
- craft N ITEM using N INGREDIENT, N INGREDIENT: such as: craft 4 oak planks using 1 oak logs
- inventory: list what you have
"""
_GOAL = """\
You craft items as in Minecraft. The task names an item to craft and shows recipes, as commands; some of them are of
no use for it. Fetch what no recipe makes, and craft the rest, ingredients first. The task is done when the item is
crafted.
"""
RULES = {
    "default": f"""{_GOAL}
{_SYNTAX}
Crafting uses up the ingredients and gives as many items as the recipe says. You may craft several batches at once by
multiplying all amounts. Ingredients such as planks, wool or logs stand for every kind, and kinds may be mixed.
An answer tells what was got or crafted, or why not.""",
    "agentgym": f"""{_GOAL}
{_SYNTAX}
Give every amount, and exactly the recipe's ingredients and amounts: one batch at a time. The ingredients planks and
wool stand for any one kind. Other ingredients must be called exactly as in the recipe.
An answer tells what was got or crafted, or why not.""",
}


@dataclass(slots=True)
class _State:
    stock: dict[str, int]
    left: int
    """Commands that the expert would still need."""


class TextCraftEnv(TextEnv):
    """Craft one item from Minecraft recipes.

    ## Description
    The player fetches raw items and crafts through one to four layers of recipes until the goal is made. The recipes
    shown are all that may have a part in it, and up to ten distractors that share an ingredient with them.

    ## Observation
    At first the recipes, as commands, in an order drawn from the seed, and the goal; then the answer to each action.

    ## Actions
    ``get N ITEM``, ``craft N ITEM using N INGREDIENT, ...``, ``inventory``. Every recipe of the game works,
    shown or not.

    ## Reward and end
    Reward 1 and the end when the goal is crafted. There is no dead end. Truncated after 60 actions; the
    expert needs at most 10, or 48 where it must craft one batch at a time (``agentgym``).

    ## Tasks
    ``train`` 400 and ``test`` 74 of the 544 craftable items, none in both; ``agentgym``: the 374 goals whose index in
    AgentGym is known, under that index (``textcraft/agentgym/0031``). Any goal: ``textcraft/goal/flint_and_steel``.
    Difficulty is the depth of the recipe tree: 1 to 4. Score is the share of the expert's commands that are done.

    ## Options
    Those of `TextEnv`. ``rules="agentgym"`` plays by the reference. ``info["inventory"]``: item -> amount.

    ## Differences from the reference
    Default rules: spacing and plural of names do not matter, an amount left out is 1, several batches at once, kinds of
    a tag as in Minecraft and mixed, part of a batch may be asked for but the amount may not exceed what is made,
    the recipe is checked before the inventory, every refusal says why. Both: recipes and distractors do not depend on
    directory order or hash seed, and longer numbers than nine digits are not understood.

    ## Source
    Prasad et al., ADaPT (arXiv 2311.05772); AgentGym (arXiv 2406.04151). Recipes: Minecraft 1.16.5.

    ## Example
    >>> import gymnasium
    >>> env = gymnasium.make("adaplan_envs:AdaPlan/TextCraft-v0")
    >>> observation, info = env.reset(options={"task_id": "textcraft/goal/torch"})
    >>> env.step("get 1 coal")[0]
    'Got 1 coal.'
    """

    name = "textcraft"
    splits = SIZES
    rulesets = RULES
    default_max_steps = 60
    extra_info: ClassVar[tuple[str, ...]] = ("inventory",)

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._book = load_book()
        self._planner = load_planner(self.ruleset)
        self._kinds = self._book.kinds(self.ruleset)
        self._kind_sets = {tag: frozenset(kinds) for tag, kinds in self._kinds.items()}
        self._names = load_names()
        self._state: _State

    # -- tasks ----------------------------------------------------------------------------------------------------

    def make_task(self, split: str, index: int) -> Task:
        return self._task(self.task_id(split, index), split, index, goals(split)[index])

    def _task(self, task_id: str, split: str, index: int, goal: str) -> Task:
        return Task(task_id, split, index, f"Craft {goal}.", self._book.depth(goal), goal)

    def task_id(self, split: str, index: int) -> str:
        return super().task_id(split, agentgym_indices()[index] if split == "agentgym" else index)

    def task(self, task_id: str) -> Task:
        """Return the task with this id; ``textcraft/goal/NAME`` is the task of crafting NAME.

        Raises:
            UnknownNameError: no task has this id.
        """
        start, _, end = task_id.rpartition("/")
        if start == f"{self.name}/goal":
            if (goal := words(end)) not in self._book.makers:
                raise UnknownNameError("goal", end, [name.replace(" ", "_") for name in self._book.goals])
            return self._task(task_id, "goal", self._book.goals.index(goal), goal)
        if start == f"{self.name}/agentgym":
            if not (end.isascii() and end.isdigit() and int(end) in agentgym_indices()):
                raise UnknownNameError("task id", task_id, self.task_ids("agentgym"))
            return self.make_task("agentgym", agentgym_indices().index(int(end)))
        return super().task(task_id)

    # -- an episode -----------------------------------------------------------------------------------------------

    def _begin(self, task: Task, seed: int) -> str:
        self._state = _State({}, self._planner.total(task.data))
        commands = [recipe.command for recipe in self._book.shown(task.data)]
        stable_rng("textcraft order", seed).shuffle(commands)
        return "You can craft:\n" + "\n".join(commands) + f"\n\nGoal: craft {task.data}."

    def _apply(self, action: str) -> Outcome:
        return self._apply_agentgym(action) if self.ruleset == "agentgym" else self._apply_default(action)

    def _apply_default(self, action: str) -> Outcome:
        text = action.rstrip(" .!")
        if match := _GET.fullmatch(text):
            return self._get_default(action, int(match[1] or 1), match[2])
        if match := _CRAFT.fullmatch(text):
            return self._craft_default(action, *match.groups())
        if text == "inventory":
            return self._inventory()
        return Outcome(f"Not understood: {_short(action)}. {_USAGE}", ActionStatus.UNPARSED, action)

    def _get_default(self, action: str, amount: int, written: str) -> Outcome:
        name = self._names.find(written)
        if name is None:
            if "," in written:
                return self._no(action, "get one kind of item at a time.")
            return self._no(action, f"no item is called {_short(written)}.")
        if name in self._book.makers:
            return self._no(action, f"{name} has to be crafted.")
        if name in self._book.groups:
            return self._no(action, f"{name} stands for several items, which have to be crafted.")
        if amount < 1:
            return self._no(action, "the amount must be at least 1.")
        return self._got(name, amount)

    def _craft_default(self, action: str, number: str | None, written: str, list_of_parts: str) -> Outcome:
        output = self._names.find(written)
        if output is None:
            return self._no(action, f"no item is called {_short(written)}.")
        recipes = self._book.makers.get(output)
        if recipes is None:
            if output in self._book.groups:
                return self._no(action, f"{output} stands for several items: name the one to craft.")
            return self._no(action, f"no recipe makes {output}: get it.")
        given: dict[str, int] = {}
        for part in _AND.split(list_of_parts):
            if (match := _PART.fullmatch(part)) is None:
                return Outcome(f"Not understood: an ingredient is missing. {_USAGE}", ActionStatus.UNPARSED, action)
            name = self._names.find(match[2])
            if name is None:
                return self._no(action, f"no item is called {_short(match[2])}.")
            given[name] = given.get(name, 0) + int(match[1] or 1)
        recipe, batches = self._match(recipes, given)
        if recipe is None:
            return self._no(action, f"no recipe makes {output} from {amounts(given.items())}.")
        made = recipe.count * batches
        if not 1 <= int(number or 1) <= made:
            return self._no(action, f"these ingredients make {made} {output}, not {number}.")
        stock = self._state.stock
        lacking = [(name, amount - stock.get(name, 0)) for name, amount in given.items() if stock.get(name, 0) < amount]
        if lacking:
            return self._no(action, f"you lack {amounts(lacking)}.")
        return self._crafted(output, made, given)

    def _match(self, recipes: tuple[Recipe, ...], given: dict[str, int]) -> tuple[Recipe | None, int]:
        """Return the recipe that `given` is a multiple of, and which."""
        for recipe in recipes:
            share = dict(recipe.ingredients)
            sums = dict.fromkeys(share, 0)
            for name, amount in given.items():
                if name in share and name not in self._kinds:
                    sums[name] += amount
                    continue
                for slot in share:  # no recipe has two slots that take the same item
                    if name in self._kind_sets.get(slot, ()):
                        sums[slot] += amount
                        break
                else:
                    break
            else:
                first, amount = recipe.ingredients[0]
                batches = sums[first] // amount
                if batches and all(sums[slot] == amount * batches for slot, amount in share.items()):
                    return recipe, batches
        return None, 0

    def _apply_agentgym(self, action: str) -> Outcome:
        if match := _AGENTGYM_GET.match(action):
            name = words(match[2])
            if name in self._book.makers or name not in self._book.items:
                return self._no(action, f"{_short(match[2])} is not to be found.")
            return self._got(name, int(match[1]))
        if match := _AGENTGYM_CRAFT.match(action):
            return self._craft_agentgym(action, match[1], match[2])
        if action.startswith("inventory"):
            return self._inventory()
        return Outcome(f"Not understood: {_short(action)}. {_USAGE}", ActionStatus.UNPARSED, action)

    def _craft_agentgym(self, action: str, written: str, list_of_parts: str) -> Outcome:
        match = _AGENTGYM_PART.match(written)
        output = words(match[2] if match else written)
        given: list[tuple[str, int]] = []
        for part in list_of_parts.split(","):
            match = _AGENTGYM_PART.match(part.strip())
            if match is None:
                return Outcome(f"Not understood: the ingredient {_short(part)}.", ActionStatus.UNPARSED, action)
            given.append((words(match[2]), int(match[1])))
        stock = self._state.stock
        # Each ingredient on its own: one that is written twice need not be there twice, but then no recipe fits.
        if any(stock.get(name, -1) < amount for name, amount in given):
            return self._no(action, "you lack ingredients.")
        recipe, batches = self._match(self._book.makers.get(output, ()), dict(given))
        if recipe is None or batches != 1 or len(given) != len(recipe.ingredients):
            return self._no(action, f"no recipe makes {_short(output)} from this.")
        return self._crafted(output, recipe.count, dict(given))

    # -- outcomes -------------------------------------------------------------------------------------------------

    def _no(self, action: str, problem: str) -> Outcome:
        return Outcome(f"Not possible: {problem}", ActionStatus.INVALID, action)

    def _got(self, name: str, amount: int) -> Outcome:
        stock = self._state.stock
        stock[name] = stock.get(name, 0) + amount
        self._state.left = self._planner.left(self.current_task.data, stock)
        return Outcome(f"Got {amount} {name}.", ActionStatus.OK, f"get {amount} {name}")

    def _crafted(self, output: str, made: int, given: dict[str, int]) -> Outcome:
        stock = self._state.stock
        for name, amount in given.items():
            stock[name] -= amount
            if not stock[name]:
                del stock[name]
        stock[output] = stock.get(output, 0) + made
        done = output == self.current_task.data
        self._state.left = 0 if done else self._planner.left(self.current_task.data, stock)
        command = f"craft {made} {output} using {amounts(given.items())}"
        return Outcome(f"Crafted {made} {output}.", ActionStatus.OK, command, success=done)

    def _inventory(self) -> Outcome:
        listed = amounts(self._state.stock.items())
        return Outcome(f"You have {listed or 'nothing'}.", ActionStatus.OK, "inventory")

    def _score(self) -> float:
        return max(0.0, 1.0 - self._state.left / self._planner.total(self.current_task.data))

    def _extra_info(self) -> dict[str, Any]:
        return {"inventory": dict(self._state.stock)}

    def hidden_facts(self) -> dict[str, Any]:
        recipes = self._book.shown(self.current_task.data)
        used = sorted({name for recipe in recipes for name, _ in recipe.ingredients})
        return {
            "recipes": [recipe.command for recipe in recipes],
            "can_be_got": [name for name in used if name not in self._book.makers and name in self._book.items],
            "stand_for": {name: list(self._kinds[name]) for name in used if name in self._kinds},
            "inventory": dict(self._state.stock),
        }

    def facts(self, observation: str) -> dict[str, Any]:
        return read_facts(observation)

    def _get_state(self) -> _State:
        return _State(dict(self._state.stock), self._state.left)

    def _set_state(self, state: _State) -> None:
        self._state = _State(dict(state.stock), state.left)

    def _make_expert(self) -> TextCraftExpert:
        return TextCraftExpert(
            self._planner, lambda: (self.current_task.data, self._state.stock, self._state.left == 0)
        )

    def admissible_actions(self) -> list[str]:
        """Return the shown recipes that can be crafted now, and what they need that can be got."""
        found = {"inventory"}
        for recipe in self._book.shown(self.current_task.data):
            used: list[tuple[str, int]] = []
            for name, amount in recipe.ingredients:
                if name in self._book.items and name not in self._book.makers:
                    found.add(f"get {amount} {name}")
                kinds = self._kinds.get(name, (name,))
                used += [(kind, amount) for kind in kinds if self._state.stock.get(kind, 0) >= amount][:1]
            if len(used) == len(recipe.ingredients):
                found.add(f"craft {recipe.count} {recipe.output} using {amounts(used)}")
        return sorted(found)

    def _ansi(self) -> str:
        return f"Goal: craft {self.current_task.data}. {self._inventory().observation}\n{self._observation}"


_USAGE = "Use: get N ITEM, craft N ITEM using N INGREDIENT, ..., or inventory."


def _short(text: str) -> str:
    """Return `text` in quotes, cut if it is long: it goes into an observation."""
    return f"'{text}'" if len(text) <= 60 else f"'{text[:60]}...'"
