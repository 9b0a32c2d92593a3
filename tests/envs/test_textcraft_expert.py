"""The TextCraft expert: every goal, from anywhere."""

from __future__ import annotations

from typing import Any

import gymnasium
import pytest

from adaplan_envs.core import stable_rng
from adaplan_envs.errors import NoPlanError
from adaplan_envs.textcraft.expert import load_planner
from adaplan_envs.textcraft.recipes import load_book


@pytest.fixture(params=["default", "agentgym"])
def env(request: pytest.FixtureRequest) -> Any:
    return gymnasium.make("AdaPlan/TextCraft-v0", rules=request.param).unwrapped


def begin(env: Any, goal: str) -> dict[str, Any]:
    info: dict[str, Any] = env.reset(options={"task_id": f"textcraft/goal/{goal.replace(' ', '_')}"})[1]
    return info


def test_it_makes_every_goal_of_the_game_as_planned_with_a_score_that_rises_at_every_step(env: Any) -> None:
    for goal in load_book().goals:
        info = begin(env, goal)
        promised = env.expert.plan()
        assert len(promised) == load_planner(env.ruleset).total(goal)
        while info["stop_reason"] is None:
            assert env.expert.plan() == promised
            before = info["score"]
            info = env.step(env.expert.action())[-1]
            assert info["action_status"] == "ok"
            assert info["score"] > before
            promised = promised[1:]
        assert info["success"], goal


def test_it_goes_on_from_what_others_have_left(env: Any) -> None:
    env.max_steps = 500
    for seed, goal in enumerate(load_book().goals[::5]):
        begin(env, goal)
        rng = stable_rng("wander", seed)
        info: dict[str, Any] = {"stop_reason": None}
        for _ in range(8):
            if info["stop_reason"] is None:
                info = env.step(rng.choice(env.admissible_actions()))[-1]
                assert 0.0 <= info["score"] <= 1.0
        if info["stop_reason"] is None:
            left = len(env.expert.plan())
            assert left <= load_planner(env.ruleset).total(goal)
            for _ in range(left):
                info = env.step(env.expert.action())[-1]
        assert info["success"], goal


def test_it_uses_what_is_in_stock(env: Any) -> None:
    begin(env, "torch")
    for action in ("get 1 birch logs", "craft 4 birch planks using 1 birch logs", "get 1 coal"):
        env.step(action)
    assert env.expert.plan() == ["Craft 4 stick from 2 birch planks.", "Craft 4 torch from 1 coal, 1 stick."]
    assert env.expert.action() == "craft 4 stick using 2 birch planks"


def test_it_crafts_several_batches_in_one_action_where_the_rules_allow_it() -> None:
    plans = {}
    for rules in ("default", "agentgym"):
        env = gymnasium.make("AdaPlan/TextCraft-v0", rules=rules).unwrapped
        begin(env, "iron block")
        assert env.expert.plan() == ["Get 9 iron ingot.", "Craft 1 iron block from 9 iron ingot."]
        begin(env, "gold block")
        plans[rules] = env.expert.plan()
    assert plans["default"] == [
        "Get 81 gold nugget.",
        "Craft 9 gold ingot from 81 gold nugget.",
        "Craft 1 gold block from 9 gold ingot.",
    ]
    assert plans["agentgym"][1:10] == ["Craft 1 gold ingot from 9 gold nugget."] * 9


def test_after_the_goal_there_is_no_plan(env: Any) -> None:
    begin(env, "iron helmet")
    env.step("get 5 iron ingot")
    env.step("craft 1 iron helmet using 5 iron ingot")
    assert env.expert.plan() == []
    with pytest.raises(NoPlanError, match="reached"):
        env.expert.action()
