"""BabyAI: follow an instruction in a grid of rooms."""

from __future__ import annotations

from typing import Any

from minigrid.envs.babyai.core.verifier import SeqInstr

from adaplan_envs.babyai.agentgym import AgentGymPlay
from adaplan_envs.babyai.expert import BabyAIExpert
from adaplan_envs.babyai.facts import hidden_facts, read_facts
from adaplan_envs.babyai.levels import SPLITS, build, find, level_ids
from adaplan_envs.babyai.play import Play
from adaplan_envs.core import TextEnv
from adaplan_envs.errors import check_name
from adaplan_envs.types import Expert, Outcome, Task

_VIEW = (
    "You are in a grid of rooms with walls, doors, keys, balls and boxes, and must accomplish the mission that you are "
    "given. You see at most six cells ahead and three to each side, not through walls and closed doors. Where things "
    "are is told from where you stand and look: 2 ahead, 1 left. A thing 1 step away straight ahead is right in front "
    "of you."
)
_PRIMITIVE = (
    "turn left; turn right; move forward (one cell); pick up (what is right in front of you; you carry one object at "
    "most); drop (onto the free cell in front of you); toggle (open or close the door in front of you, which takes the "
    "key of its colour in your hand if it is locked, or open a box, which leaves only what was in it); done (nothing)."
)
_MISSION = (
    "You go to an object by standing right in front of it, looking at it. Do the parts of a mission in the order that "
    "it tells."
)
_COMMANDS = (
    "go to X N; pick up X N; go through DOOR N (an open one); toggle and go through DOOR N. X is a colour and a kind, "
    "such as red ball, N its number, which it keeps. These walk by the shortest way over cells that you have seen."
)

_PRIMITIVE_STEPS = 10_000  # more than any level's own budget


class BabyAIEnv(TextEnv):
    """Go to, pick up, open and put down things in a grid of rooms, as an instruction says.

    ## Description
    minigrid's BabyAI levels: an agent in one or several rooms, with doors that may be locked, keys, balls and boxes,
    and a mission such as "open the red door, then put a ball next to the green box". What lies elsewhere must be found.

    ## Observation
    What is in sight, with number and position (``red ball 1 (3 ahead, 2 left)``; at most six cells ahead and three to
    each side), what blocks the way straight ahead, what is in the hand, and at the start the mission. After a command
    that changed nothing: the reason alone.

    ## Actions
    ``turn left``, ``turn right``, ``move forward``, ``pick up``, ``drop``, ``toggle``, ``done``: minigrid's actions.
    ``go to X N``, ``pick up X N``, ``go through DOOR N``, ``toggle and go through DOOR N``: the shortest way there,
    by breadth-first search over position and direction on the cells seen so far, then the deed. ``pickup``, articles
    and a door's state are understood; the number may be missing where only one object is meant.

    ## Reward and end
    1.0 when minigrid calls the mission accomplished, which ends the episode; else 0. Some levels fail a mission on the
    first wrong object: then the episode ends as a failure. Truncated when the level's own budget of minigrid actions is
    spent, or after 128 commands (``max_steps``; no such limit with ``actions="primitive"``). The score is the share of
    the mission's parts that are done.

    ## Tasks
    ``train`` (4,000) and ``test`` (400): the 40 levels of AgentGym's list in turn, with seeds of their own.
    ``agentgym`` (12,000): its game k is level k % 40 + 1 with seed k // 40. ``babyai/BabyAI-GoToDoor-v0/0007`` is any
    BabyAI level that minigrid knows, with seed 7. A task's difficulty is the level's budget of minigrid actions.

    ## Options
    ``actions``: ``commands`` (default) or ``primitive``, minigrid's seven actions alone. ``rules``: ``default`` or
    ``agentgym``. ``info`` holds, besides the keys of every environment, ``position`` (x, y), ``direction`` (0 right,
    1 down, 2 left, 3 up), ``carrying``, ``visible`` (name, number, ahead, right), ``facing`` (kind and distance of what
    blocks the way ahead, or None) and ``moves``, the minigrid actions so far.

    ## Differences from the reference
    AgentGym numbers objects anew in every step, by distance; takes unseen cells for free; says "and" for "then" and
    "after you"; overlooks a mission that is accomplished in the middle of a command, or late; never tells that one has
    failed; and has no limit. ``rules="agentgym"`` keeps all that. Default: as above.

    ## Source
    Chevalier-Boisvert et al. 2018, arXiv 1810.08272; the levels as in AgentGym, arXiv 2406.04151; minigrid 3.2.

    ## Example
    >>> import gymnasium
    >>> env = gymnasium.make("adaplan_envs:AdaPlan/BabyAI-v0")
    >>> observation, info = env.reset(options={"task_id": "babyai/test/0000"})
    >>> info["goal"]
    'go to the red ball'
    >>> env.step("turn left")[4]["action_status"].value
    'ok'
    """

    name = "babyai"
    splits = SPLITS
    rulesets = {
        "default": f"{_VIEW} {_MISSION} The commands are: {_PRIMITIVE} Also: {_COMMANDS}",
        "agentgym": (
            f"{_VIEW} {_MISSION} The commands that you can give are listed in every observation, such as: turn left; "
            "turn right; move forward; go to X N; pickup X N; drop; go through DOOR N; toggle and go through DOOR N; "
            "toggle; check available actions. Numbers count the things of one name from near to far, anew each time."
        ),
    }
    default_max_steps = 128
    extra_info = ("position", "direction", "carrying", "visible", "facing", "moves")
    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 8}

    _state: Play | AgentGymPlay

    def __init__(self, *, actions: str = "commands", max_steps: int | None = None, **options: Any) -> None:
        """Args as of `TextEnv`, and actions: ``commands`` or ``primitive``.

        Raises:
            UnknownNameError: no such kind of actions, split, ruleset or render mode.
        """
        self.primitive = check_name("kind of actions", actions, ("commands", "primitive")) == "primitive"
        if self.primitive and max_steps is None:
            max_steps = _PRIMITIVE_STEPS
        super().__init__(max_steps=max_steps, **options)
        self._built: tuple[str, Any] | None = None

    @property
    def rules(self) -> str:
        """What an agent is told before it plays: goal, action syntax, what feedback means."""
        if self.primitive and self.ruleset == "default":
            return f"{_VIEW} {_MISSION} The commands are: {_PRIMITIVE}"
        return self.rulesets[self.ruleset]

    @property
    def level(self) -> Any:
        """The environment of minigrid beneath, in the state of the episode. Not to be stepped: `step` is for that."""
        self.current_task  # noqa: B018 - raises before the first reset
        return self._state.level

    def task(self, task_id: str) -> Task:
        """Return the task with this id; ``babyai/LEVEL/SEED`` is one too, for every level that minigrid has.

        Raises:
            UnknownNameError: no task has this id.
        """
        name, _, rest = task_id.partition("/")
        split, _, number = rest.rpartition("/")
        by_name = name == self.name and split.startswith("BabyAI-") and number.isascii() and number.isdigit()
        if by_name and int(number[:10]) < 2**31 and len(number) <= 10:
            return self.make_task(check_name("BabyAI level", split, level_ids()), int(number))
        return super().task(task_id)

    def make_task(self, split: str, index: int) -> Task:
        """Return task `index` of `split`, or of the level that has this id; its data is (level id, minigrid's seed)."""
        level_id, seed, level = find(split, index)
        goal = str(level.mission)
        if self.ruleset == "agentgym":
            goal = goal.replace("then", "and").replace("after you", "and")
        task = Task(self.task_id(split, index), split, index, goal, int(level.max_steps), (level_id, seed))
        self._built = (task.id, level)
        return task

    def _begin(self, task: Task, seed: int) -> str:
        level_id, level_seed = task.data
        built, self._built = self._built, None
        level = built[1] if built and built[0] == task.id else build(level_id, level_seed)
        if self.ruleset == "agentgym":
            self._state = AgentGymPlay(level_id, level)
        else:
            self._state = Play(level_id, level, self.primitive)
        return f"{self._state.text()}\nMission: {task.goal}."

    def _apply(self, action: str) -> Outcome:
        return self._state.play(action)

    def _make_expert(self) -> Expert:
        return BabyAIExpert(lambda: self._state)

    def admissible_actions(self) -> list[str]:
        """Return the commands that change something now."""
        return list(self._state.options())

    def _score(self) -> float:
        return _share_done(self._state.level.instrs)

    def _extra_info(self) -> dict[str, Any]:
        state, level = self._state, self._state.level
        return {
            "position": [int(level.agent_pos[0]), int(level.agent_pos[1])],
            "direction": int(level.agent_dir),
            "carrying": state.carrying,
            "visible": [list(sight) for sight in state.visible],
            "facing": list(state.facing) if state.facing else None,
            "moves": int(level.step_count),
        }

    def hidden_facts(self) -> dict[str, Any]:
        return hidden_facts(self.level)

    def secrets(self) -> list[tuple[str, ...]]:
        return [(row,) for row in self.hidden_facts()["grid"]]

    def facts(self, observation: str) -> dict[str, Any]:
        return read_facts(observation)

    def _ansi(self) -> str:
        return f"{self._state.level.pprint_grid()}\n{self._state.text()}\nMission: {self.current_task.goal}."

    def _rgb_array(self) -> Any:
        return self._state.level.get_frame()

    def _get_state(self) -> tuple[str, bytes]:
        self.current_task  # noqa: B018 - raises before the first reset
        return self._state.level_id, self._state.freeze()

    def _set_state(self, state: tuple[str, bytes]) -> None:
        self._state = (AgentGymPlay if self.ruleset == "agentgym" else Play).thaw(*state)


def _share_done(instr: Any) -> float:
    """Return the share of an unfinished mission's parts that are done."""
    if not isinstance(instr, SeqInstr):
        return 0.0
    parts = ((instr.instr_a, instr.a_done), (instr.instr_b, instr.b_done))
    done = [(_size(part), 1.0 if state == "success" else _share_done(part)) for part, state in parts]
    return sum(size * share for size, share in done) / _size(instr)


def _size(instr: Any) -> int:
    return _size(instr.instr_a) + _size(instr.instr_b) if isinstance(instr, SeqInstr) else 1
