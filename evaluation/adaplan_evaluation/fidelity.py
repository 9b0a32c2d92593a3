"""How faithful an LLM simulator is: the same actions through the simulated twin and the real environment."""

from __future__ import annotations

import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import gymnasium

from adaplan_envs.chat import Usage
from adaplan_envs.core import TextEnv, stable_rng
from adaplan_envs.errors import ConfigError, NoPlanError, check_name
from adaplan_envs.simulated.simulator import BudgetSpentError
from adaplan_envs.types import ActionStatus, StopReason
from adaplan_evaluation.agreement import plain, rate, sums_by_task
from adaplan_evaluation.provenance import commit, versions
from adaplan_evaluation.store import Run
from adaplan_evaluation.suite import EnvPool, choose_tasks, resolve_envs
from adaplan_evaluation.types import episode_seed

PLAYERS = ("expert", "random")
RANDOM_STEPS = 20
"""Actions of a random sequence: enough to bump into everything, few enough to pay for."""
ASPECTS = ("valid", "done", "success", "reward", "facts")
_VALID = (ActionStatus.OK, ActionStatus.NO_EFFECT)


@dataclass(frozen=True, slots=True)
class Seen:
    """What one environment answered to an action: validity, end, success, reward, and the facts it states."""

    valid: bool
    done: bool
    success: bool
    reward: float
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Script:
    """Actions for one task, and what the real environment answers to them."""

    env_id: str
    task_id: str
    seed: int
    player: str
    actions: tuple[str, ...]
    real: tuple[Seen, ...]


@dataclass(slots=True)
class Comparison:
    """One sequence through the twin."""

    script: Script
    twin: list[Seen] = field(default_factory=list)
    stop: StopReason | None = None
    flags: Counter[str] = field(default_factory=Counter)
    usage: Usage = field(default_factory=Usage)
    seconds: float = 0.0

    @property
    def pairs(self) -> list[tuple[Seen, Seen]]:
        """The answers of both, as far as both played."""
        return list(zip(self.script.real, self.twin, strict=False))

    @property
    def first_divergence(self) -> int | None:
        """Number of the first step in which anything differs, or None."""
        return next((number for number, (real, twin) in enumerate(self.pairs, 1) if real != twin), None)


def fidelity(
    envs: str | Sequence[str],
    simulator: Any,
    *,
    split: str = "test",
    episodes: int = 30,
    players: Sequence[str] = PLAYERS,
    recorded: Run | None = None,
    seed: int = 0,
    concurrency: int = 16,
    env_settings: Mapping[str, Any] | None = None,
    twin_settings: Mapping[str, Any] | None = None,
    on_episode: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Play the same actions through the twin and the real environment, and return how far they agree; JSON types only.

    For each environment and over all (``overall``): ``episodes``, ``errors`` (no usable answer of the simulator, or its
    budget was spent; the steps before count), ``steps`` compared, and rates with intervals over tasks:

    - ``valid``, ``done``, ``success``, ``reward``: of steps in which twin and real environment say the same;
    - ``facts``: of facts stated by either, those that both state alike (see `TextEnv.facts`); ``fact_kinds``: by kind;
    - ``exact``: of steps in which all of this agrees;
    - ``outcome``: of episodes at whose end (the twin's) both say the same of success;
    - ``faithful``: of episodes in which nothing differs from the first step to the last. ``first_divergence`` is the
      median step at which the others part.

    The twin goes on from its own answers, so that one error may bring others. A sequence that one of them ends too
    early is compared as far as both play.

    Args:
        envs: names or ids, or ``all`` that are installed.
        simulator: who plays the twin, see `adaplan_envs.simulated.twin.Twin`.
        split: of which tasks.
        episodes: tasks of each environment and player.
        players: who chooses the actions, in the real environment: ``expert``, ``random``.
        recorded: a run whose actions are played too, as far as it was played in these environments.
        seed: of everything.
        concurrency: twins that wait for their simulator at once.
        env_settings: of both environments, such as ``{"rules": "agentgym"}``.
        twin_settings: of the twin alone, such as ``{"cache": False, "max_cost": 1.0}``.
        on_episode: is told how many sequences there are, once for each that is done.

    Raises:
        ConfigError: a wrong name or number.
        ModelAccessError: the simulator can't be used at all.
    """
    for name, number in (("episodes", episodes), ("concurrency", concurrency)):
        if number < 1:
            raise ConfigError(f"{name} is {number}; it must be at least 1")
    for player in players:
        check_name("player", player, PLAYERS)
    settings = {**(env_settings or {}), "split": split}
    scripts: list[Script] = []
    for env_id in resolve_envs(envs):
        env = gymnasium.make(env_id, **settings)
        scripts += _scripts(env, env_id, split, episodes, players, recorded, seed)
        env.close()
    if not scripts:
        raise ConfigError("no actions to play: give players, or a recorded run of these environments")
    pool = EnvPool(**settings, **(twin_settings or {}), backend="simulated", simulator=simulator)
    began = time.perf_counter()
    try:
        done = _play_all(pool, scripts, concurrency, on_episode)
    finally:
        pool.close()
    by_env = {
        env_id: [each for each in done if each.script.env_id == env_id]
        for env_id in sorted({s.env_id for s in scripts})
    }
    return {
        "simulator": simulator
        if isinstance(simulator, str)
        else str(getattr(simulator, "name", type(simulator).__name__)),
        "split": split,
        "players": [*players, *(["recorded"] if recorded is not None else [])],
        "seed": seed,
        "sequences": len(scripts),
        "played": len(done),
        "seconds": round(time.perf_counter() - began, 3),
        "envs": {env_id: _measure(some) for env_id, some in by_env.items()},
        "overall": _measure(done),
        "commit": commit(),
        "versions": versions(),
    }


# -- the actions and the truth ---------------------------------------------------------------------------------------


def _scripts(
    env: gymnasium.Env[str, str],
    env_id: str,
    split: str,
    episodes: int,
    players: Sequence[str],
    recorded: Run | None,
    seed: int,
) -> list[Script]:
    base = env.unwrapped
    assert isinstance(base, TextEnv)
    found = []
    for task_id in choose_tasks(base, split, episodes):
        start = episode_seed(seed, env_id, task_id, 0)
        for player in players:
            found.append(_record(base, env_id, task_id, start, player, None))
    played = [episode for episode in recorded.episodes if episode.env_id == env_id] if recorded is not None else []
    for episode in played[:episodes]:
        actions = [turn.action for turn in episode.turns]
        found.append(_record(base, env_id, episode.task_id, episode.seed, "recorded", actions))
    return [script for script in found if script.actions]


def _record(env: TextEnv, env_id: str, task_id: str, seed: int, player: str, given: Sequence[str] | None) -> Script:
    """Play a task in the real environment, and return the actions with its answers."""
    _, info = env.reset(seed=seed, options={"task_id": task_id})
    rng = stable_rng("fidelity", task_id, seed)
    actions: list[str] = []
    real: list[Seen] = []
    while info["stop_reason"] is None:
        if given is not None:
            if len(actions) == len(given):
                break
            action = given[len(actions)]
        elif player == "expert":
            try:
                action = env.expert.action()
            except NoPlanError:
                break
        elif len(actions) < RANDOM_STEPS:
            # One in five is nothing that the environment knows or allows now, for validity has two sides.
            sensible = env.admissible_actions() or [env.expert.action()]
            action = rng.choice(sensible) if rng.random() < 0.8 else rng.choice(_SENSELESS)
        else:
            break
        observation, reward, terminated, _, info = env.step(action)
        actions.append(action)
        real.append(_seen(env, observation, reward, terminated, info))
    return Script(env_id, task_id, seed, player, tuple(actions), tuple(real))


_SENSELESS = ("dance", "go to nowhere 9", "open sesame", "xyzzy", "move sideways")


def _seen(env: TextEnv, observation: str, reward: float, terminated: bool, info: Mapping[str, Any]) -> Seen:
    valid = info["action_status"] in _VALID
    return Seen(valid, terminated, bool(info["success"]), float(reward), env.facts(observation))


# -- the twin --------------------------------------------------------------------------------------------------------


def _play_all(
    pool: EnvPool, scripts: Sequence[Script], concurrency: int, on_episode: Callable[[int], None] | None
) -> list[Comparison]:
    spent = threading.Event()
    done: list[Comparison] = []

    def one(script: Script) -> None:
        if spent.is_set():
            return
        comparison = _play_twin(pool, script)
        if comparison.stop is StopReason.BUDGET:
            spent.set()  # what was finished is reported; asking on would only find the budget spent
        if comparison.twin or comparison.stop is not StopReason.BUDGET:
            done.append(comparison)
        if on_episode is not None:
            on_episode(len(scripts))

    with ThreadPoolExecutor(concurrency, "adaplan-fidelity") as executor:
        jobs = [executor.submit(one, script) for script in scripts]
        try:
            for job in jobs:
                job.result()
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            raise
    order = {id(script): number for number, script in enumerate(scripts)}
    return sorted(done, key=lambda each: order[id(each.script)])


def _play_twin(pool: EnvPool, script: Script) -> Comparison:
    found = Comparison(script)
    env = pool.take(script.env_id)
    base = env.unwrapped
    assert isinstance(base, TextEnv)
    began = time.perf_counter()
    try:
        env.reset(seed=script.seed, options={"task_id": script.task_id})
        for action in script.actions:
            observation, reward, terminated, _, info = env.step(action)
            found.usage = Usage(**info["usage"])
            found.flags.update(info["flags"])
            found.stop = info["stop_reason"]
            if found.stop in (StopReason.ERROR, StopReason.BUDGET):
                break
            found.twin.append(_seen(base, observation, float(reward), terminated, info))
            if found.stop is not None:
                break
    except BudgetSpentError:
        found.stop = StopReason.BUDGET
    found.seconds = time.perf_counter() - began
    pool.give(script.env_id, env)
    return found


# -- the figures -----------------------------------------------------------------------------------------------------


def _measure(done: Sequence[Comparison]) -> dict[str, Any]:
    steps: list[tuple[str, list[float]]] = []
    whole: list[tuple[str, list[float]]] = []
    kinds: dict[str, list[tuple[str, list[float]]]] = {}
    for each in done:
        task = f"{each.script.env_id} {each.script.task_id}"
        for real, twin in each.pairs:
            stated = _facts(real, twin)
            alike = sum(stated.values())
            same = [float(getattr(real, name) == getattr(twin, name)) for name in ASPECTS[:-1]]
            steps.append((task, [1.0, *same, float(real == twin), float(alike), float(len(stated))]))
            for kind, agreed in stated.items():
                kinds.setdefault(kind, []).append((task, [float(agreed), 1.0]))
        if each.stop not in (StopReason.ERROR, StopReason.BUDGET) and each.twin:
            outcome = each.pairs[-1][0].success == each.twin[-1].success
            faithful = each.first_divergence is None and len(each.twin) == len(each.script.real)
            whole.append((task, [1.0, float(outcome), float(faithful)]))
    sums_TC, whole_TC = sums_by_task(steps, 8), sums_by_task(whole, 3)
    rates = {name: rate(sums_TC, column, 0, "steps") for column, name in enumerate(ASPECTS[:-1], 1)}
    rates["facts"] = rate(sums_TC, 6, 7, "facts")
    rates["exact"] = rate(sums_TC, 5, 0, "steps")
    rates["outcome"], rates["faithful"] = (rate(whole_TC, column, 0, "whole") for column in (1, 2))
    parted = [each.first_divergence for each in done if each.first_divergence is not None]
    usage = sum((each.usage for each in done), Usage())
    return {
        "episodes": len(done),
        "errors": sum(each.stop in (StopReason.ERROR, StopReason.BUDGET) for each in done),
        "steps": len(steps),
        **plain(rates),
        "fact_kinds": plain({kind: rate(sums_by_task(rows, 2), 0, 1, kind) for kind, rows in sorted(kinds.items())}),
        "first_divergence": statistics.median(parted) if parted else None,
        "flags": dict(sorted(sum((each.flags for each in done), Counter()).items())),
        "requests": usage.requests,
        "tokens": usage.prompt_tokens + usage.completion_tokens,
        "cost": usage.cost,
        "step_seconds": round(sum(each.seconds for each in done) / len(steps), 6) if steps else None,
    }


def _facts(real: Seen, twin: Seen) -> dict[str, bool]:
    """Return each fact that either states, with whether both state it alike."""
    missing = object()
    kinds = sorted({*real.facts, *twin.facts})
    return {kind: real.facts.get(kind, missing) == twin.facts.get(kind, missing) for kind in kinds}
