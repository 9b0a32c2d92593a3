"""`ALFWorldEnv`: household tasks in text, on the engine of ALFWorld."""

from __future__ import annotations

from typing import Any, ClassVar

from adaplan_envs.alfworld import official
from adaplan_envs.alfworld.commands import KNOWLEDGE, parse, refusal
from adaplan_envs.alfworld.engine import GOAL_SLOT, Engine, translate
from adaplan_envs.alfworld.expert import AlfworldExpert, dead_end
from adaplan_envs.alfworld.facts import hidden_facts, read_facts, secrets
from adaplan_envs.alfworld.generator import LEVELS, make_game
from adaplan_envs.alfworld.world import Game, Goal, Scene, State
from adaplan_envs.core import TextEnv
from adaplan_envs.types import ActionStatus, Expert, Outcome, Task

_RULES = """\
You are in a room with furniture and objects, and have one task to do there. You have one hand. Every turn, write one \
command:
- go to PLACE: walk to a piece of furniture; you see what is on it, or in it if it is open
- open PLACE, close PLACE: the one that you are at
- take OBJECT from PLACE, move OBJECT to PLACE: pick up, put down (also: put OBJECT in/on PLACE)
- clean OBJECT with PLACE (a sinkbasin), heat OBJECT with PLACE (a microwave), cool OBJECT with PLACE (a fridge): the \
object has to be in your hand; nothing needs to be opened for it
- use OBJECT: turn on a lamp
- slice OBJECT with OBJECT: with a knife in your hand
- examine PLACE, examine OBJECT: look at it closely
- look, inventory, help
Call things by their names with the numbers, such as "take mug 2 from desk 1". "Nothing happens" means that the \
command was not possible or not understood.
To examine or look at an object under a lamp, hold the object, go to the lamp and use it."""


class ALFWorldEnv(TextEnv):
    """Household tasks: find things, clean, heat or cool them, put them where they belong.

    ## Description
    A room full of furniture, some of it closed, and a task such as "put a clean mug in coffeemachine". The agent has
    to look for the objects and to carry them one at a time. Played by ALFWorld's own engine: the PDDL domain of
    ALFRED in Fast Downward, the text from TextWorld's grammar.

    ## Observation
    The engine's own words: what is at the place one has come to, or what a command did. The first observation lists
    the furniture and states the task.

    ## Actions
    ``go to``, ``open``, ``close``, ``take X from Y``, ``move X to Y`` (or ``put X in/on Y``), ``clean``, ``heat`` and
    ``cool X with Y``, ``use X``, ``slice X with Y``, ``examine X``, ``look``, ``inventory``, ``help``.

    ## Reward and end
    1.0 when the goal holds. Failure when it can't be reached any more: in official games something may be picked up
    that nothing can hold, and the hand never gets free again. Truncated after 50 steps.

    ## Tasks
    ``train`` (3,000) and ``test`` (321): generated scenes after ALFRED's floor plans, training rooms and held-out ones;
    six kinds of task and three difficulties in turn, all solvable and without dead ends. ``official_train`` (3,553),
    ``valid_seen`` (140) and ``valid_unseen`` (134): the official games, after ``adaplan data get alfworld``.

    ## Options
    ``rules="alfworld"`` answers as the engine does, to the letter.

    ``info`` has two more keys: ``goal_condition_success``, the share of the goal's conditions that hold (also
    ``score``), and ``alias_actions``, the number of commands given in the other grammar.

    ## Differences from the reference
    A command that can't be done is told why, after "Nothing happens."; both grammars are understood; case and blanks do
    not matter; dead ends end the episode. With ``rules="alfworld"`` none of this is so, except case and blanks.

    ## Source
    Shridhar et al. 2021, arXiv 2010.03768; PyPI alfworld and textworld. Goal conditions as in ALFRED (Shridhar et al.
    2020, section 5).

    ## Example
    >>> import gymnasium
    >>> env = gymnasium.make("adaplan_envs:AdaPlan/ALFWorld-v0", split="test")
    >>> observation, info = env.reset(options={"task_id": "alfworld/test/0003"})
    >>> observation, reward, terminated, truncated, info = env.step(env.unwrapped.expert.action())
    """

    name = "alfworld"
    splits: ClassVar[dict[str, int]] = {"train": 3000, "test": 321, **official.SIZES}
    rulesets: ClassVar[dict[str, str]] = {"default": _RULES, "alfworld": _RULES}
    default_max_steps = 50
    extra_info = ("goal_condition_success", "alias_actions")

    def __init__(self, **kwargs: Any) -> None:
        installed = official.installed_sizes()
        # A partial copy of the official games has fewer; without any, the splits are named and asking for one says why.
        self.splits = {**type(self).splits, **installed}  # type: ignore[misc]
        super().__init__(**kwargs)
        if self.split in official.SIZES and self.split not in installed:
            official.load_game(self.split, 0)  # raises what is missing
        self._engine = Engine()
        self._scene: Scene | None = None

    def make_task(self, split: str, index: int) -> Task:
        if split in official.SIZES:
            game = official.load_game(split, index)
            difficulty = next((n for n, level in enumerate(LEVELS, 1) if game.receptacles <= level.receptacles), 3)
        else:
            game, difficulty = make_game(split, index)
        return Task(self.task_id(split, index), split, index, game.task.rstrip("."), difficulty, game)

    def _begin(self, task: Task, seed: int) -> str:
        self._load(task.data)
        self._state = {"played": (), "aliases": 0}
        return self._engine.text("#intro#").replace(GOAL_SLOT, task.data.task)

    def _load(self, game: Game) -> None:
        problem = translate(game.problem)
        self._engine.load(problem)
        self._scene = Scene(problem, Goal.parse(game.problem))

    def now(self) -> State:
        """Return how the running game stands at this moment, what is hidden included."""
        assert self._scene is not None
        return State(self._scene, self._engine)

    def _apply(self, action: str) -> Outcome:
        command = parse(action)
        stock = self.ruleset == "alfworld"
        if command is None or (stock and command.alias):
            why = "" if stock else " This is no command; help lists them."
            return Outcome(f"Nothing happens.{why}", ActionStatus.UNPARSED, action)
        self._state["aliases"] += command.alias
        said = self._engine.step(command.text)
        if said is None:
            status, why = refusal(command, self.now())
            return Outcome("Nothing happens." if stock else f"Nothing happens. {why}", status, command.text)
        told = command.verb in KNOWLEDGE
        status = ActionStatus.OK if told or self._engine.changed else ActionStatus.NO_EFFECT
        won = self._engine.won
        failed = not stock and not won and command.verb == "take" and dead_end(self.now())
        return Outcome(said, status, command.text, success=won, failed=failed)

    def admissible_actions(self) -> list[str] | None:
        return self._engine.commands

    def _score(self) -> float:
        done, needed = self.now().conditions()
        return done / needed

    def _extra_info(self) -> dict[str, Any]:
        return {"goal_condition_success": self._score(), "alias_actions": self._state["aliases"]}

    def _make_expert(self) -> Expert:
        return AlfworldExpert(self.now)

    def hidden_facts(self) -> dict[str, Any]:
        return hidden_facts(self.now())

    def secrets(self) -> list[tuple[str, ...]]:
        return secrets(self.now())

    def facts(self, observation: str) -> dict[str, Any]:
        return read_facts(observation)

    def _get_state(self) -> Any:
        return {"played": tuple(self._engine.played), "aliases": self._state["aliases"]}

    def _set_state(self, state: Any) -> None:
        self._load(self.current_task.data)
        self._engine.replay(state["played"])
        self._state = dict(state)

    def close(self) -> None:
        """Hand the engine's library on; closing again does nothing."""
        self._engine.close()
        super().close()
