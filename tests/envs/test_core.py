"""The base class, on a tiny environment of its own: what every environment inherits."""

from __future__ import annotations

import pickle

import gymnasium
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

from adaplan_envs import ActionStatus, Outcome, StopReason, Task, TextEnv, TextSpace
from adaplan_envs.core import stable_rng
from adaplan_envs.errors import ConfigError, UnknownNameError


class Countdown(TextEnv):
    """Say `down` until zero; `up` is refused; `die` ends it."""

    name = "countdown"
    splits = {"train": 5, "test": 3}
    rulesets = {"default": "Say down.", "other": "Say down, please."}
    default_max_steps = 10
    extra_info = ("left",)

    def make_task(self, split: str, index: int) -> Task:
        return Task(self.task_id(split, index), split, index, "reach zero", index, index + 2)

    def _begin(self, task: Task, seed: int) -> str:
        self._state = {"left": task.data}
        return f"{task.data} left"

    def _apply(self, action: str) -> Outcome:
        if action == "down":
            self._state["left"] -= 1
            return Outcome("down", ActionStatus.OK, action, success=self._state["left"] == 0)
        if action == "die":
            return Outcome("dead", ActionStatus.OK, action, failed=True)
        return Outcome("?", ActionStatus.UNPARSED, action)

    def _make_expert(self) -> CountdownExpert:
        return CountdownExpert(self)

    def _extra_info(self) -> dict[str, int]:
        return dict(self._state)


class CountdownExpert:
    def __init__(self, env: Countdown) -> None:
        self.env = env

    def plan(self) -> list[str]:
        return ["Say down."] * self.env._state["left"]

    def action(self) -> str:
        return "down"


def test_gymnasiums_own_checker_accepts_it() -> None:
    check_env(Countdown(), skip_render_check=True)


def test_the_last_step_says_why_the_episode_ended() -> None:
    env = Countdown(max_steps=3)
    for task, actions, reason, flags in [
        ("countdown/train/0000", ["down", " DOWN\n"], StopReason.SUCCESS, (1.0, True, False)),
        ("countdown/train/0000", ["die"], StopReason.FAILURE, (0.0, True, False)),
        ("countdown/train/0003", ["down", "up", "down"], StopReason.MAX_STEPS, (0.0, False, True)),
    ]:
        _, info = env.reset(options={"task_id": task})
        for action in actions:
            assert info["stop_reason"] is None
            _, reward, terminated, truncated, info = env.step(action)
        assert info["stop_reason"] is reason
        assert (reward, terminated, truncated) == flags


def test_a_seed_picks_the_task_and_options_override_it() -> None:
    env = Countdown()
    drawn = [env.reset(seed=seed)[1]["task_id"] for seed in range(20)]
    assert drawn == [env.reset(seed=seed)[1]["task_id"] for seed in range(20)]
    assert len(set(drawn)) > 2
    assert env.reset(seed=1, options={"split": "test"})[1]["split"] == "test"
    assert env.reset(seed=1, options={"task_id": "countdown/test/0002"})[1]["task_id"] == "countdown/test/0002"


def test_a_snapshot_branches_an_episode_also_across_a_pickle() -> None:
    env = Countdown()
    env.reset(options={"task_id": "countdown/train/0002"})
    env.step("down")
    branch = pickle.loads(pickle.dumps(env.snapshot()))
    first = [env.step("down") for _ in range(3)]
    other = Countdown()
    for target in (env, other):
        observation, info = target.restore(branch)
        assert (observation, info["steps"], info["left"]) == ("down", 1, 3)
        assert [target.step("down") for _ in range(3)] == first
    with pytest.raises(ConfigError, match="can't be restored"):
        Countdown(rules="other").restore(branch)


def test_wrong_names_are_answered_with_the_nearest_right_ones() -> None:
    for wrong, hint in [
        (lambda: Countdown(split="tset"), "did you mean 'test'"),
        (lambda: Countdown(rules="defualt"), "did you mean 'default'"),
        (lambda: Countdown(render_mode="human"), "Valid: 'ansi'"),
        (lambda: Countdown().reset(options={"taskid": "x"}), "did you mean 'task_id'"),
        (lambda: Countdown().task("countdown/test/0003"), "countdown/test/0002"),
        (lambda: Countdown().task("maze/test/0001"), "countdown/test/0002"),
        (lambda: Countdown().task("countdown/test/١"), "countdown/test/0002"),
    ]:
        with pytest.raises(UnknownNameError, match=hint):
            wrong()
    with pytest.raises(ConfigError, match="max_steps"):
        Countdown(max_steps=0)


def test_stepping_out_of_an_episode_says_to_reset() -> None:
    env = Countdown(max_steps=1)
    for call in (lambda: env.step("down"), env.snapshot, env.render):
        with pytest.raises(ResetNeeded):
            call()
    env.reset()
    with pytest.raises(TypeError, match="not int"):
        env.step(3)  # type: ignore[arg-type]
    env.step("up")
    with pytest.raises(ResetNeeded):
        env.step("down")


def test_text_space_holds_every_string_and_nothing_else() -> None:
    space = TextSpace(seed=0)
    assert all(text in space for text in ("", "é", "\ud800", "x" * 100_000, space.sample()))
    assert 3 not in space
    assert space == TextSpace()
    assert [TextSpace(seed=3).sample() for _ in range(2)] == [TextSpace(seed=3).sample()] * 2


def test_stable_rng_never_changes() -> None:
    assert [stable_rng("maze", "test", 3).randrange(1000) for _ in range(2)] == [
        stable_rng("maze", "test", 3).randrange(1000)
    ] * 2
    assert stable_rng("a", 1).random() != stable_rng("a", 2).random()
    assert stable_rng("frozen").randrange(10**6) == FROZEN


FROZEN = 740563


def test_errors_survive_a_pickle() -> None:
    error = pickle.loads(pickle.dumps(UnknownNameError("split", "tset", ["train", "test"])))
    assert "did you mean 'test'" in str(error)


def test_registration_is_idempotent_and_specs_are_json() -> None:
    from adaplan_envs import SUITE, register

    before = len(gymnasium.registry)
    register()
    assert len(gymnasium.registry) == before
    for entry in SUITE:
        assert gymnasium.spec(entry.id).to_json()
