"""ALFWorld's environment: tasks, commands, score, expert, dead ends."""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import pytest

pytest.importorskip("alfworld", reason="pip install adaplan[alfworld]")
pytest.importorskip("textworld", reason="pip install adaplan[alfworld]")

from adaplan_envs.alfworld import generator
from adaplan_envs.alfworld.commands import parse
from adaplan_envs.alfworld.generator import GOALS, LEVELS, make_game
from adaplan_envs.alfworld.world import Goal
from adaplan_envs.core import stable_rng
from adaplan_envs.errors import NoPlanError, SimulatorError
from adaplan_envs.types import ActionStatus, StopReason
from tests.conftest import ROOT

ID = "adaplan_envs:AdaPlan/ALFWorld-v0"
HEAT = "alfworld/test/0003"


@pytest.fixture
def make() -> Iterator[Callable[..., Any]]:
    made: list[Any] = []

    def build(**options: Any) -> Any:
        made.append(gymnasium.make(ID, **options).unwrapped)
        return made[-1]

    yield build
    for env in made:
        env.close()


def test_the_shipped_floor_plans_are_those_of_the_package() -> None:
    spec = importlib.util.spec_from_file_location("build", ROOT / "scripts" / "build_alfworld_scenes.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert {**script.build(), "source": ""} == {**generator.tables(), "source": ""}


def test_kinds_and_difficulties_of_tasks_take_turns() -> None:
    kinds = Counter((index % 6, make_game("test", index)[1]) for index in range(321))
    assert len(kinds) == len(GOALS) * len(LEVELS)
    assert max(kinds.values()) - min(kinds.values()) <= 1


def test_a_goal_reads_back_from_its_problem() -> None:
    goals = [Goal.parse(make_game("train", index)[0].problem) for index in range(6)]
    assert [goal.verb for goal in goals] == [None, None, "clean", "heat", "cool", None]
    assert [goal.count for goal in goals] == [1, 1, 1, 1, 1, 2]
    assert [goal.lamp for goal in goals] == [None, "desklamptype", None, None, None, None]
    with pytest.raises(SimulatorError, match="six kinds"):
        Goal.parse("(:goal (and (exists (?o - object) (isSliced ?o))))")


@pytest.mark.parametrize("split", ["train", "test"])
def test_nothing_that_can_be_picked_up_can_get_stuck_in_the_hand(split: str) -> None:
    for index in range(321):
        text = make_game(split, index)[0].problem
        kinds = dict(re.findall(r"\(objectType (\S+) (\S+)\)", text))
        places = set(dict(re.findall(r"\(receptacleType (\S+) (\S+)\)", text)).values())
        holds = re.findall(r"\(canContain (\S+) (\S+)\)", text)
        homes = {kind for place, kind in holds if place in places}
        assert {kinds[thing] for thing in re.findall(r"\(pickupable (\S+)\)", text)} <= homes
        assert "(pickupable DeskLamp" not in text


def test_no_game_is_won_at_the_start_and_larger_ones_are_larger() -> None:
    for index in range(180):
        game, difficulty = make_game("train", index)
        level = LEVELS[difficulty - 1]
        assert game.receptacles <= level.receptacles
        assert game.distractors <= level.distractors
        goal = Goal.parse(game.problem)
        text = game.problem.lower()
        kinds = dict(re.findall(r"\(objecttype (\S+) (\S+)\)", text))
        places = dict(re.findall(r"\(receptacletype (\S+) (\S+)\)", text))
        inside = re.findall(r"\(inreceptacle (\S+) (\S+)\)", text.partition("(:goal")[0])
        assert not any(kinds[thing] == goal.object and places[place] == goal.receptacle for thing, place in inside)


def test_test_games_play_in_rooms_that_training_never_sees() -> None:
    for goal in GOALS:
        assert not set(generator._choices(goal, True)) & set(generator._choices(goal, False))


@pytest.mark.parametrize(
    ("action", "text", "alias"),
    [
        ("go to desk 1", "go to desk 1", False),
        ("move mug 2 to desk 1", "move mug 2 to desk 1", False),
        ("put mug 2 in/on desk 1", "move mug 2 to desk 1", True),
        ("put mug 2 in desk 1", "move mug 2 to desk 1", True),
        ("put mug 2 on desk 1", "move mug 2 to desk 1", True),
        ("take mug 2 from desk 1", "take mug 2 from desk 1", False),
        ("slice apple 1 with knife 2", "slice apple 1 with knife 2", False),
        ("inventory", "inventory", False),
    ],
)
def test_both_grammars_are_understood(action: str, text: str, alias: bool) -> None:
    command = parse(action)
    assert command is not None
    assert (command.text, command.alias) == (text, alias)


@pytest.mark.parametrize("action", ["", "go", "go to", "take mug 1", "put mug 1", "dance", "look around", "heat mug 1"])
def test_what_is_no_command_is_not_understood(action: str) -> None:
    assert parse(action) is None


def test_a_refused_command_says_why_and_how_it_was_meant(make: Callable[..., Any]) -> None:
    env = make(split="test")
    env.reset(options={"task_id": HEAT})
    for action, status, why in [
        ("go to moon 1", ActionStatus.INVALID, "There is no place called moon 1."),
        ("open fridge 1", ActionStatus.INVALID, "You are not at fridge 1."),
        ("go to fridge 1", ActionStatus.OK, None),
        ("go to fridge 1", ActionStatus.NO_EFFECT, "You are already at fridge 1."),
        ("take bowl 1 from fridge 1", ActionStatus.INVALID, "The fridge 1 is closed."),
        ("take moon 1 from fridge 1", ActionStatus.INVALID, "The fridge 1 is closed."),
        ("close fridge 1", ActionStatus.NO_EFFECT, "The fridge 1 is already closed."),
        ("open fridge 1", ActionStatus.OK, None),
        ("open fridge 1", ActionStatus.NO_EFFECT, "The fridge 1 is already open."),
        ("take moon 1 from fridge 1", ActionStatus.INVALID, "You see no moon 1 in or on fridge 1."),
        ("put bowl 1 in/on fridge 1", ActionStatus.INVALID, "You are not holding bowl 1."),
        ("take bowl 1 from fridge 1", ActionStatus.OK, None),
        ("take bowl 1 from fridge 1", ActionStatus.INVALID, "Your hand is full: you are holding bowl 1."),
        ("heat bowl 1 with fridge 1", ActionStatus.INVALID, "You can't heat anything with fridge 1."),
        ("use bowl 1", ActionStatus.INVALID, "The bowl 1 can't be turned on."),
        ("slice bowl 1 with bowl 1", ActionStatus.INVALID, "The bowl 1 can't be sliced with bowl 1."),
        ("cool bowl 1 with fridge 1", ActionStatus.OK, None),
        ("cool bowl 1 with fridge 1", ActionStatus.NO_EFFECT, None),
        ("put bowl 1 in/on fridge 1", ActionStatus.OK, None),
        ("examine egg 1", ActionStatus.INVALID, "You see no egg 1 here."),
        ("go to countertop 1", ActionStatus.OK, None),
        ("open countertop 1", ActionStatus.INVALID, "The countertop 1 does not open."),
        ("dance", ActionStatus.UNPARSED, "This is no command; help lists them."),
        ("inventory", ActionStatus.OK, None),
        ("inventory", ActionStatus.OK, None),
    ]:
        observation, *_, info = env.step(action)
        assert info["action_status"] is status, action
        if why is None:
            assert "Nothing happens" not in observation
        else:
            assert observation == f"Nothing happens. {why}"
    assert info["alias_actions"] == 2


def test_a_refusal_does_not_tell_what_is_hidden(make: Callable[..., Any]) -> None:
    env = make(split="test")
    env.reset(options={"task_id": HEAT})
    env.step("go to fridge 1")
    for pattern in ("take {} from fridge 1", "examine {}", "use {}", "slice {} with {}", "move {} to fridge 1"):
        there, not_there = (
            env.step(pattern.replace("{}", name))[0].replace(name, "it") for name in ("bowl 1", "moon 1")
        )
        assert there == not_there


def test_by_the_references_rules_nothing_is_mended(make: Callable[..., Any]) -> None:
    env = make(split="test", rules="alfworld")
    env.reset(options={"task_id": HEAT})
    for action in ("go to moon 1", "put bowl 1 in/on fridge 1", "dance"):
        assert env.step(action)[0] == "Nothing happens."


def test_score_is_the_share_of_goal_conditions(make: Callable[..., Any]) -> None:
    env = make(split="test")
    _, info = env.reset(options={"task_id": HEAT})
    scores = [info["score"]]
    while info["stop_reason"] is None:
        info = env.step(env.expert.action())[-1]
        assert info["goal_condition_success"] == info["score"]
        scores.append(info["score"])
    assert sorted(set(scores)) == [0.0, 1 / 3, 1.0]


def test_the_score_is_full_exactly_when_the_engine_says_won(make: Callable[..., Any]) -> None:
    env = make(max_steps=10_000)
    for index in range(12):
        env.reset(options={"task_id": f"alfworld/train/{index:04d}"})
        rng = stable_rng("score", index)
        for _ in range(60):
            action = rng.choice(env.admissible_actions()) if rng.random() < 0.6 else env.expert.action()
            info = env.step(action)[-1]
            done, needed = env.now().conditions()
            assert (done == needed) is env._engine.won is info["success"]
            if info["success"]:
                break


def test_the_expert_solves_from_wherever_it_is_dropped(make: Callable[..., Any]) -> None:
    env = make(max_steps=10_000)
    for index in range(12):
        _, info = env.reset(options={"task_id": f"alfworld/test/{index:04d}"})
        rng = stable_rng("drop", index)
        for _ in range(25):
            if info["stop_reason"] is None:
                info = env.step(rng.choice(env.admissible_actions()))[-1]
        for _ in range(20):
            if info["stop_reason"] is None:
                plan, action = env.expert.plan(), env.expert.action()
                assert action.split()[-1] in plan[0]
                info = env.step(action)[-1]
                assert info["action_status"] is ActionStatus.OK
        assert info["success"]
        assert env.expert.plan() == []


def test_a_dead_end_ends_the_episode(make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """As in official games: something can be picked up that nothing can hold."""

    def stuck(split: str, index: int) -> Any:
        game, difficulty = make_game(split, index)
        kind = re.findall(r"\(objectType [^?]\S+ (\S+)\)", game.problem)[-1]
        assert kind.lower() != Goal.parse(game.problem).object
        monkeypatch.setitem(names, "kind", kind.removesuffix("Type").lower())
        text = re.sub(rf"\(canContain \S+ {kind}\)\n?", "", game.problem)
        return type(game)(text, game.task, (), game.receptacles, game.objects, game.distractors), difficulty

    names: dict[str, str] = {}
    monkeypatch.setattr("adaplan_envs.alfworld.env.make_game", stuck)
    for rules, stop in (("default", StopReason.FAILURE), ("alfworld", None)):
        env = make(split="test", rules=rules)
        _, info = env.reset(options={"task_id": HEAT})
        thing = next(thing for thing, kind in env._scene.object_type.items() if kind == f"{names['kind']}type")
        name, place = env._scene.name(thing), env._scene.name(env.now().places(thing)[0])
        for action in (f"go to {place}", f"open {place}", f"take {name} from {place}"):
            _, _, terminated, _, info = env.step(action)
        assert (terminated, info["stop_reason"]) == (stop is not None, stop)
        with pytest.raises(NoPlanError, match="nothing here can hold"):
            env.expert.action()
