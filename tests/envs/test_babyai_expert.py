"""BabyAI's expert: it solves what can be solved, with the commands that an agent has, and says what can't."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("minigrid", reason="pip install adaplan[babyai]")

from adaplan_envs import ActionStatus
from adaplan_envs.babyai.env import BabyAIEnv
from adaplan_envs.babyai.levels import LEVELS, find, level_ids
from adaplan_envs.babyai.solver import solve
from adaplan_envs.core import stable_rng
from adaplan_envs.errors import NoPlanError


def finish(env: BabyAIEnv) -> dict[str, Any]:
    info: dict[str, Any] = {"stop_reason": None}
    while info["stop_reason"] is None:
        info = env.step(env.expert.action())[-1]
        assert info["success"] or info["action_status"] is ActionStatus.OK, info
    return info


def missed(env: BabyAIEnv, task_ids: list[str]) -> list[str]:
    misses = []
    for task_id in task_ids:
        env.reset(options={"task_id": task_id})
        try:
            done = finish(env)["success"]
        except NoPlanError:
            done = False
        if not done:
            misses.append(task_id)
    return misses


@pytest.mark.slow
def test_it_solves_every_test_task() -> None:
    env = BabyAIEnv(split="test")
    assert missed(env, env.task_ids()) == []


@pytest.mark.slow
def test_with_primitive_actions_too() -> None:
    env = BabyAIEnv(split="test", actions="primitive")
    assert missed(env, env.task_ids()[:80]) == []


@pytest.mark.slow
def test_by_agentgyms_rules_only_boxes_that_must_be_opened_defeat_it() -> None:
    env = BabyAIEnv(split="test", rules="agentgym")
    levels = {find("test", int(task_id[-4:]))[0] for task_id in missed(env, env.task_ids()[:80])}
    assert levels == {"BabyAI-KeyInBox-v0"}


@pytest.mark.slow
def test_the_other_levels_of_minigrid_are_no_harder() -> None:
    env = BabyAIEnv()
    others = [name for name in level_ids() if name not in LEVELS and "OrderN2Debug" not in name]
    assert len(others) > 50
    assert missed(env, [f"babyai/{name}/0001" for name in others]) == []


@pytest.mark.parametrize("level", ["KeyInBox", "PutNextS7N4Carrying", "BlockedUnlockPickup", "UnlockToUnlock"])
def test_it_solves_what_minigrids_bot_finds_hard(level: str) -> None:
    env = BabyAIEnv()
    assert missed(env, [f"babyai/BabyAI-{level}-v0/{seed:04d}" for seed in range(6)]) == []


def test_its_plan_is_what_it_then_does() -> None:
    env = BabyAIEnv()
    for index in (0, 7, 24, 27, 33, 38):
        env.reset(options={"task_id": f"babyai/test/{index:04d}"})
        observed = env._observation
        plan = env.expert.plan()
        assert env._observation == observed
        for words in plan:
            assert words.lower().startswith(env.expert.action())
            info = env.step(env.expert.action())[-1]
        assert info["success"]


def test_it_goes_on_from_wherever_others_left_the_episode() -> None:
    env = BabyAIEnv()
    given_up = 0
    for index in range(0, 400, 13):
        env.reset(options={"task_id": f"babyai/test/{index:04d}"})
        rng = stable_rng("wander", index)
        for _ in range(6):
            if not env._done:
                env.step(rng.choice(env.admissible_actions()))
        try:
            if not env._done:
                assert finish(env)["success"] or env.level.step_count >= env.level.max_steps
        except NoPlanError:
            given_up += 1
    assert given_up <= 2


def test_it_says_when_the_mission_has_become_impossible() -> None:
    env = BabyAIEnv()
    for seed in range(30):
        env.reset(options={"task_id": f"babyai/BabyAI-PickupDist-v0/{seed:04d}"})
        wanted = env.level.instrs.desc.obj_set
        if [thing.type for thing in wanted] != ["box"]:
            continue
        box = wanted[0]
        while env._state.level.grid.get(*env.level.front_pos) is not box:
            ahead = (
                next(name for thing, name in env._state.known.items() if thing is box)
                if box in env._state.known
                else None
            )
            env.step(f"go to {ahead.label}" if ahead else "turn left")
        env.step("toggle")
        with pytest.raises(NoPlanError, match="any more"):
            env.expert.action()
        with pytest.raises(NoPlanError, match="any more"):
            env.expert.plan()
        return
    pytest.fail("no such mission among the seeds")


def test_it_says_when_the_moves_that_are_left_do_not_suffice() -> None:
    env = BabyAIEnv()
    env.reset(options={"task_id": "babyai/BabyAI-OneRoomS20-v0/0001"})
    for _ in range(396):
        env.step("turn left")
        env._done, env._steps = False, 0  # the commands are not what this is about
    with pytest.raises(NoPlanError, match="the level allows 4 more"):
        env.expert.action()


@pytest.mark.slow
def test_a_sample_of_training_tasks_has_a_solution_within_the_budget() -> None:
    for index in stable_rng("babyai solvable").sample(range(4000), 250):
        level_id, _, level = find("train", index)
        assert len(solve(level_id, level)) <= level.max_steps
