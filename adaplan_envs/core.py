"""`TextEnv`: the contract that every environment of the suite keeps.

A subclass says what a task is (`make_task`), how an episode begins (`_begin`), what an action does (`_apply`) and
who plays perfectly (`_make_expert`). Everything else (seeds, task ids, info, limits, snapshots) is here, once.
"""

from __future__ import annotations

import copy
import hashlib
import random
from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import gymnasium
from gymnasium.error import ResetNeeded

from adaplan_envs.errors import ConfigError, UnknownNameError, check_name
from adaplan_envs.spaces import TextSpace
from adaplan_envs.types import ActionStatus, Expert, Outcome, Snapshot, StopReason, Task

RECENT_TASKS = 256
"""Tasks that an environment keeps at hand."""


def stable_rng(*parts: object) -> random.Random:
    """Return a generator that depends on `parts` alone: the same on any machine and any PYTHONHASHSEED.

    `random.Random` and not numpy's: its streams have not changed between Python versions, numpy reserves the right to.
    """
    digest = hashlib.sha256("\x1f".join(map(str, parts)).encode()).digest()
    return random.Random(int.from_bytes(digest[:8], "big"))


class TextEnv(gymnasium.Env[str, str]):
    """A text environment: strings in, strings out.

    Args:
        split: where `reset` draws tasks from when no ``task_id`` is given.
        rules: name of the ruleset, one of `rulesets`.
        max_steps: limit of actions in an episode, after which it is truncated; None takes the environment's own.
        admissible_actions: put the list of sensible commands into every ``info`` (it may be slow to compute).
        render_mode: one of ``metadata["render_modes"]``.

    Raises:
        UnknownNameError: no such split, ruleset or render mode.
    """

    name: ClassVar[str]
    """First part of every task id."""
    splits: ClassVar[Mapping[str, int]]
    """Number of tasks in each split."""
    rulesets: ClassVar[Mapping[str, str]]
    """Ruleset name -> `rules`, the text that an agent is told: goal, action syntax, what feedback means."""
    default_max_steps: ClassVar[int]
    extra_info: ClassVar[tuple[str, ...]] = ()
    """Keys that `_extra_info` adds to ``info``."""
    blocking: ClassVar[bool] = False
    """Whether `step` waits for something else (a model, a server): a runner then calls it in a thread."""
    spelled: bool = False
    """Whether a command may be given letter by letter, with blanks between."""
    backend: str = "real"
    """Who plays the environment: ``real`` for its own simulator, else ``simulated:`` and the name of a model."""
    metadata: dict[str, Any] = {"render_modes": ["ansi"]}

    def __init__(
        self,
        *,
        split: str = "train",
        rules: str = "default",
        max_steps: int | None = None,
        admissible_actions: bool = False,
        render_mode: str | None = None,
    ) -> None:
        if max_steps is not None and max_steps < 1:
            raise ConfigError(f"max_steps is {max_steps}; it must be at least 1, or None for {self.default_max_steps}")
        self.ruleset = check_name("ruleset", rules, self.rulesets)
        self.split = check_name("split", split, self.splits)
        if render_mode is not None:
            check_name("render mode", render_mode, self.metadata["render_modes"])
        self.render_mode = render_mode
        self.max_steps = max_steps or self.default_max_steps
        self.observation_space = TextSpace()
        self.action_space = TextSpace()
        self._list_admissible = admissible_actions
        self._recent: dict[str, Task] = {}
        self._current: Task | None = None
        self._state: Any = None
        """Everything that changes during an episode, picklable: what `snapshot` copies."""
        self._seed = 0
        self._chance = random.Random()
        self._steps = 0
        self._done = True
        self._observation = ""
        self._info: dict[str, Any] = {}
        self._episode_info: dict[str, Any] = {}

    # -- what a subclass writes ---------------------------------------------------------------------------------

    @abstractmethod
    def make_task(self, split: str, index: int) -> Task:
        """Return task `index` of `split`; a pure function of its arguments and the constructor's."""

    @abstractmethod
    def _begin(self, task: Task, seed: int) -> str:
        """Set `_state` to the start of `task` and return the first observation.

        `seed` is for chance within the episode; most environments have none and ignore it.
        """

    @abstractmethod
    def _apply(self, action: str) -> Outcome:
        """Play `action`, already in lower case and with single blanks. Must accept any string."""

    @abstractmethod
    def _make_expert(self) -> Expert:
        """Return the expert, which reads this environment's `_state` anew at every call."""

    def admissible_actions(self) -> list[str] | None:
        """Return the commands that make sense now, in a fixed order, or None where they can't be listed."""
        return None

    def _score(self) -> float:
        """Return the progress in [0, 1) of an unsolved episode."""
        return 0.0

    def _extra_info(self) -> dict[str, Any]:
        """Return the values of `extra_info`."""
        return {}

    def hidden_facts(self) -> dict[str, Any]:
        """Return what a simulator of the running episode must know beyond rules, goal and first observation.

        JSON types only. See `adaplan_envs.simulated`.
        """
        return {}

    def secrets(self) -> list[tuple[str, ...]]:
        """Return what no observation may give away: words that must not stand together in one sentence of it.

        It is no secret any more once the player has named the last of the words, or has been told them.
        """
        return []

    def facts(self, observation: str) -> dict[str, Any]:
        """Return what `observation` states, in JSON types: equal for two observations that say the same in other words.

        What it does not mention is left out. Used to compare a simulated environment with the real one.
        """
        return {}

    def _ansi(self) -> str:
        """Return the state as text for a person."""
        return self._observation

    def _rgb_array(self) -> Any:
        """Return the state as a picture, uint8 of shape [height, width, 3]."""
        raise ConfigError(f"{type(self).__name__} draws no pictures")  # unreachable: render_mode was checked

    # -- what everybody uses ------------------------------------------------------------------------------------

    @property
    def rules(self) -> str:
        """What an agent is told before it plays: goal, action syntax, what feedback means."""
        return self.rulesets[self.ruleset]

    @property
    def current_task(self) -> Task:
        """The task of the running episode.

        Raises:
            ResetNeeded: `reset` was never called.
        """
        if self._current is None:
            raise ResetNeeded("no task yet: call reset() first")
        return self._current

    @cached_property
    def expert(self) -> Expert:
        """A perfect player, which plans from the current state."""
        return self._make_expert()

    def task_id(self, split: str, index: int) -> str:
        """Return the id of a task, without building it."""
        return f"{self.name}/{split}/{index:04d}"

    def task_ids(self, split: str | None = None) -> list[str]:
        """Return the ids of all tasks of `split` (default: the environment's own), in order."""
        split = check_name("split", split or self.split, self.splits)
        return [self.task_id(split, index) for index in range(self.splits[split])]

    def task(self, task_id: str) -> Task:
        """Return the task with this id.

        Raises:
            UnknownNameError: no task has this id.
        """
        name, _, rest = task_id.partition("/")
        split, _, number = rest.rpartition("/")
        if name != self.name or not (number.isascii() and number.isdigit()):
            raise UnknownNameError("task id", task_id, [self.task_id(s, size - 1) for s, size in self.splits.items()])
        check_name("split", split, self.splits)
        if int(number) >= self.splits[split]:
            last = self.task_id(split, self.splits[split] - 1)
            raise UnknownNameError("task id", task_id, [self.task_id(split, 0), last])
        return self.make_task(split, int(number))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: picks the task, and chance within the episode where there is any.
            options: ``{"task_id": ...}`` picks the task itself; ``{"split": ...}`` draws from another split.

        Returns:
            The first observation and the info (see `StepInfo`).

        Raises:
            UnknownNameError: no such task, split or option.
        """
        super().reset(seed=seed)
        if seed is not None:
            self._chance = stable_rng("reset", seed)
        options = options or {}
        for key in options:
            check_name("reset option", key, ("task_id", "split"))
        wanted = options.get("task_id")
        if wanted is None:
            split = check_name("split", options.get("split") or self.split, self.splits)
            wanted = self.task_id(split, self._chance.randrange(self.splits[split]))
        self._current = task = self._recent_task(wanted)
        self._seed = seed if seed is not None else self._chance.getrandbits(31)
        self._steps = 0
        self._done = False
        self._observation = self._begin(task, self._seed)
        self._begin_info(task)
        self._info = self._make_info(Outcome("", ActionStatus.OK, ""), None)
        return self._observation, self._info

    def _recent_task(self, task_id: str) -> Task:
        """Return a task, built once for the many episodes that a group or a benchmark plays on it."""
        task = self._recent.get(task_id)
        if task is None:
            task = self.task(task_id)
            if len(self._recent) >= RECENT_TASKS:
                del self._recent[next(iter(self._recent))]
            self._recent[task_id] = task
        return task

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play one action.

        Any string is accepted; case, outer blanks and doubled blanks do not matter. What became of it is
        ``info["action_status"]``.

        Returns:
            observation, reward (1.0 on success, else 0.0), terminated, truncated, info (see `StepInfo`).

        Raises:
            ResetNeeded: the episode is over, or none has begun.
            TypeError: the action is not a string.
        """
        if self._done:
            raise ResetNeeded("the episode is over: call reset() before the next step()")
        if not isinstance(action, str):
            raise TypeError(f"an action is a string, not {type(action).__name__}")
        self._steps += 1
        outcome = self._apply(" ".join(action.split()).lower())
        if outcome.success:
            stop: StopReason | None = StopReason.SUCCESS
        elif outcome.failed:
            stop = StopReason.FAILURE
        elif outcome.truncated or self._steps >= self.max_steps:
            stop = StopReason.MAX_STEPS
        else:
            stop = None
        self._done = stop is not None
        self._observation = outcome.observation
        self._info = info = self._make_info(outcome, stop)
        terminated = outcome.success or outcome.failed
        return outcome.observation, float(outcome.success), terminated, self._done and not terminated, info

    def _make_info(self, outcome: Outcome, stop: StopReason | None) -> dict[str, Any]:
        # A copy and a few items: built anew, the dictionary would be a quarter of a light environment's step.
        info = self._episode_info.copy()
        if outcome.success:
            info["success"], info["score"] = True, 1.0
        else:
            info["score"] = self._score()
        if self._list_admissible:
            info["admissible_actions"] = self.admissible_actions()
        info["action_status"] = outcome.status
        info["action"] = outcome.action
        info["steps"] = self._steps
        info["stop_reason"] = stop
        if self.extra_info:
            info.update(self._extra_info())
        return info

    def _begin_info(self, task: Task) -> None:
        """Note what stays the same in every info of an episode."""
        self._episode_info = {
            "task_id": task.id,
            "split": task.split,
            "goal": task.goal,
            "success": False,
            "score": 0.0,
            "admissible_actions": None,
            "action_status": ActionStatus.OK,
            "action": "",
            "steps": 0,
            "max_steps": self.max_steps,
            "stop_reason": None,
            "backend": self.backend,
        }

    def snapshot(self) -> Snapshot:
        """Return a picklable copy of the episode; `restore` goes back to it, here or in another process.

        Raises:
            ResetNeeded: no episode has begun.
        """
        state = self._get_state()
        return Snapshot(
            self.name,
            self.ruleset,
            self.current_task,
            self._seed,
            state,
            self._observation,
            dict(self._info),
            self._done,
        )

    def restore(self, snapshot: Snapshot) -> tuple[str, dict[str, Any]]:
        """Go back to `snapshot` and return the observation and info of that moment.

        Raises:
            ConfigError: the snapshot is of another environment or ruleset.
        """
        if (snapshot.env, snapshot.ruleset) != (self.name, self.ruleset):
            raise ConfigError(
                f"a snapshot of {snapshot.env} (rules={snapshot.ruleset!r}) can't be restored into "
                f"{self.name} (rules={self.ruleset!r})"
            )
        self._current = snapshot.task
        self._seed = snapshot.seed
        self._set_state(snapshot.state)
        self._begin_info(snapshot.task)
        self._observation = snapshot.observation
        self._info = dict(snapshot.info)
        self._steps = self._info["steps"]
        self._done = snapshot.done
        return self._observation, dict(self._info)

    def _get_state(self) -> Any:
        """Return a copy of `_state`. Override where a cheaper copy or a foreign engine asks for it."""
        return copy.deepcopy(self._state)

    def _set_state(self, state: Any) -> None:
        """Continue from `state`, which may be restored again: copy what an episode changes."""
        self._state = copy.deepcopy(state)

    def render(self) -> Any:
        """Return the state as text (``render_mode="ansi"``) or as a picture (``"rgb_array"``).

        Raises:
            ResetNeeded: no episode has begun.
        """
        self.current_task  # noqa: B018 - raises before the first reset
        if self.render_mode == "rgb_array":
            return self._rgb_array()
        return self._ansi() if self.render_mode == "ansi" else None
