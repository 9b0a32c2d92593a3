"""`DescribedEnv`: an environment that is nothing but a description in a YAML file, played by a language model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from adaplan_envs.errors import ConfigError, NoPlanError, check_name
from adaplan_envs.simulated.env import Scenario, SimulatedEnv
from adaplan_envs.simulated.simulator import get_simulator
from adaplan_envs.types import Task

_OF_TASK = ("goal", "opening", "hidden", "secrets", "success", "walkthrough")
_OF_FILE = ("name", "rules", "actions", "max_steps", "tasks", *_OF_TASK)
_NEEDED = ("goal", "opening", "success")
_MAX_STEPS = 30


class DescribedEnv(SimulatedEnv):
    """An environment without code: rules, actions, goal, hidden facts and success condition in a file.

    ## Description
    A language model plays what a YAML file describes. A new environment is a file, and no program.

    ## Observation
    First the file's ``opening``, then what the simulator says, as far as it gives no secret away.

    ## Actions
    What the file's ``actions`` say.

    ## Reward and end
    1.0 when the simulator finds that the file's ``success`` holds; see the rules in `SimulatedEnv`. Truncated after
    ``max_steps`` of the file (30).

    ## Tasks
    The file's ``tasks``: a list (the split ``test``), or split name -> list; each may have a ``goal``, ``opening``,
    ``hidden``, ``secrets``, ``success`` and ``walkthrough`` of its own. A file without ``tasks`` is one task itself.

    ## Options
    ``task_file`` and those of every simulated environment; ``simulator="scripted"`` is not possible, for there is no
    real environment. By default tasks are drawn from the first split.

    ## Differences from the reference
    There is none: the paper simulates environments that exist.

    ## Source
    PilotRL, arXiv 2508.00344: a frontier model as environment.

    ## Example
        env = gymnasium.make("adaplan_envs:AdaPlan/Simulated-v0", task_file="vault.yaml", simulator="openai:MODEL")

    Args:
        task_file: path of the description.
        simulator: see `adaplan_envs.simulated.twin.Twin`.
        simulator_options: likewise.
        cache: likewise.
        max_cost: likewise.
        max_tokens: likewise.
        **options: see `SimulatedEnv`.

    Raises:
        ConfigError: no or a wrong description; the message says which part is wrong.
    """

    name = "simulated"
    splits = {}
    rulesets = {}
    default_max_steps = _MAX_STEPS

    def __init__(
        self,
        *,
        task_file: str | Path | None = None,
        simulator: Any = None,
        simulator_options: Mapping[str, Any] | None = None,
        cache: str | Path | bool = True,
        max_cost: float | None = None,
        max_tokens: int | None = None,
        split: str | None = None,
        **options: Any,
    ) -> None:
        if task_file is None:
            raise ConfigError("which environment? Give task_file='FILE.yaml', a description (see docs/simulated.md)")
        if simulator is None:
            raise ConfigError("who simulates it? Give simulator='openai:MODEL' or another model's name")
        if isinstance(simulator, str) and simulator.partition(":")[0] == "scripted":
            raise ConfigError("there is no real environment to script: name a model as simulator")
        described = read_description(task_file)
        self._tasks: dict[str, list[dict[str, Any]]] = described["tasks"]
        self.name = described["name"]  # type: ignore[misc]
        self.splits = {name: len(tasks) for name, tasks in self._tasks.items()}  # type: ignore[misc]
        self.rulesets = {"default": described["rules"]}  # type: ignore[misc]
        self.default_max_steps = described["max_steps"]  # type: ignore[misc]
        super().__init__(
            get_simulator(simulator, options=simulator_options, cache=cache, max_cost=max_cost, max_tokens=max_tokens),
            split=split or next(iter(self.splits)),
            **options,
        )

    def make_task(self, split: str, index: int) -> Task:
        """Return task `index` of `split`; its data is what the file says of it."""
        told = self._tasks[split][index]
        return Task(self.task_id(split, index), split, index, told["goal"], 1, told)

    def _scenario(self, task: Task, seed: int) -> Scenario:
        told = task.data
        success = f"The goal is reached, and success is true, exactly when this holds: {told['success']}"
        return Scenario(told["opening"], told["hidden"], told["secrets"], success)

    def _make_expert(self) -> _Walkthrough:
        return _Walkthrough(self)

    @property
    def actions(self) -> tuple[str, ...]:
        """What was played in this episode."""
        return self._state.actions


class _Walkthrough:
    """Follows the description's walkthrough, as long as nothing else was played."""

    def __init__(self, env: DescribedEnv) -> None:
        self._env = env

    def plan(self) -> list[str]:
        """Return the rest of the walkthrough."""
        whole, played = self._env.current_task.data["walkthrough"], self._env.actions
        rest = list(whole[len(played) :])
        if not rest or tuple(whole[: len(played)]) != played:
            raise NoPlanError("the description has no walkthrough from here")
        return rest

    def action(self) -> str:
        """Return the next step of the walkthrough."""
        return self.plan()[0]


def read_description(path: str | Path) -> dict[str, Any]:
    """Return name, rules, max_steps and tasks (split -> list) of a description, everything filled in and checked.

    Raises:
        ConfigError: the file can't be read or says something that is no part of a description.
    """
    path = Path(path)
    try:
        told = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
    _check(path, "a description", told, _OF_FILE)
    if not told.get("rules"):
        raise ConfigError(f"{path}: rules are missing: what the player is told")
    tasks = told.get("tasks", [{}])
    splits = tasks if isinstance(tasks, dict) else {"test": tasks}
    if not splits or not all(isinstance(some, list) and some for some in splits.values()):
        raise ConfigError(f"{path}: tasks must be a list, or split names with a list each, and not be empty")
    max_steps = told.get("max_steps", _MAX_STEPS)
    if not isinstance(max_steps, int) or max_steps < 1:
        raise ConfigError(f"{path}: max_steps is {max_steps!r}; it must be a number of at least 1")
    rules = str(told["rules"]).strip()
    if told.get("actions"):
        actions = told["actions"]
        listed = "\n".join(f"- {each}" for each in actions) if isinstance(actions, list) else str(actions).strip()
        rules += f"\nActions, one at a time:\n{listed}"
    common = {key: told[key] for key in _OF_TASK if key in told}
    name = str(told.get("name", path.stem)).lower()
    if "/" in name or not name:
        raise ConfigError(f"{path}: name is {name!r}; it must not be empty or hold a slash")
    return {
        "name": name,
        "rules": rules,
        "max_steps": max_steps,
        "tasks": {
            str(split): [_task(path, f"task {number} of {split}", common, task) for number, task in enumerate(some)]
            for split, some in splits.items()
        },
    }


def _check(path: Path, what: str, told: Any, keys: Sequence[str]) -> None:
    if not isinstance(told, dict):
        raise ConfigError(f"{path}: {what} must be a mapping with some of {', '.join(keys)}")
    for key in told:
        check_name(f"part of {what} in {path.name}", str(key), keys)


def _task(path: Path, what: str, common: dict[str, Any], told: Any) -> dict[str, Any]:
    _check(path, what, told, _OF_TASK)
    whole = {"hidden": {}, "secrets": [], "walkthrough": [], **common, **told}
    for key in _NEEDED:
        if not isinstance(whole.get(key), str) or not whole[key].strip():
            raise ConfigError(f"{path}: {what} has no {key}; it must be a text")
    if not isinstance(whole["hidden"], dict):
        raise ConfigError(f"{path}: hidden of {what} must be a mapping")
    secrets = [secret if isinstance(secret, list) else [secret] for secret in whole["secrets"] or []]
    return {
        "goal": whole["goal"].strip(),
        "opening": whole["opening"].strip(),
        "success": whole["success"].strip(),
        "hidden": whole["hidden"],
        "secrets": tuple(tuple(map(str, secret)) for secret in secrets),
        "walkthrough": tuple(" ".join(str(step).split()).lower() for step in whole["walkthrough"] or []),
    }
