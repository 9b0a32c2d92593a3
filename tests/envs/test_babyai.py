"""BabyAI: fidelity to minigrid and to recorded runs, the commands of the default rules, tasks."""

from __future__ import annotations

import contextlib
import io
import pickle
from typing import Any

import gymnasium
import pytest

pytest.importorskip("minigrid", reason="pip install adaplan[babyai]")

from minigrid.core.world_object import Ball, Box, Door, Key, Wall

from adaplan_envs import ActionStatus, StopReason
from adaplan_envs.babyai.env import BabyAIEnv
from adaplan_envs.babyai.levels import LEVELS, build, find, level_ids
from adaplan_envs.babyai.play import Play
from adaplan_envs.babyai.view import look
from adaplan_envs.core import stable_rng
from adaplan_envs.errors import UnknownNameError

OK, NO_EFFECT, INVALID, UNPARSED = ActionStatus


def raw(level_id: str, seed: int) -> tuple[Any, str]:
    """Return minigrid's own level, just reset, and what it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        level = gymnasium.make(level_id).unwrapped
        level.reset(seed=seed)
    return level, printed.getvalue()


def room(*things: tuple[int, int, Any], at: tuple[int, int] = (3, 5), direction: int = 3) -> Play:
    """Return an episode in a room of six by six cells with only these things, whose mission never ends."""
    level = build("BabyAI-GoToRedBallNoDists-v0", 0)
    level.instrs.desc.obj_poss = []
    for x in range(1, 7):
        for y in range(1, 7):
            level.grid.set(x, y, None)
    for x, y, thing in things:
        level.grid.set(x, y, thing)
    level.agent_pos, level.agent_dir = at, direction
    return Play("BabyAI-GoToRedBallNoDists-v0", level, primitive=False)


# -- fidelity ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_recorded_runs_of_agentgym_replay_exactly(recorded: Any) -> None:
    env = BabyAIEnv(rules="agentgym")
    steps = 0
    for episode in recorded("babyai.jsonl"):
        k = int(episode["id"].partition("_")[2])
        _, info = env.reset(options={"task_id": f"babyai/agentgym/{k:04d}"})
        assert env.current_task.data == (episode["env_id"], episode["seed"])
        assert (info["goal"], env.level.mission) == (episode["goal"], episode["mission_raw"])
        assert state(info) == episode["state0"]
        assert view(info) == episode["first"], episode["id"]
        for step in episode["steps"]:
            info = env.step(step["a"])[-1]
            assert state(info) == step["s"], (episode["id"], step["a"])
            if step.get("view"):
                assert view(info) == step["view"], (episode["id"], step["a"])
            assert step["valid"] or info["action_status"] in (NO_EFFECT, INVALID, UNPARSED)
            steps += 1
        assert info["success"]
    assert steps == 2744


def state(info: dict[str, Any]) -> list[Any]:
    return [*info["position"], info["direction"], info["carrying"], info["moves"]]


def view(info: dict[str, Any]) -> dict[str, Any]:
    return {"visible": info["visible"], "facing": info["facing"], "carrying": info["carrying"]}


@pytest.mark.slow
def test_levels_are_minigrids_own_and_seen_with_its_eyes() -> None:
    for number, level_id in enumerate(level_ids()):
        rng = stable_rng(level_id)
        theirs, _ = raw(level_id, number)
        ours = build(level_id, number)
        assert (ours.mission, ours.max_steps) == (theirs.mission, theirs.max_steps)
        for _ in range(15):
            assert (ours.grid.encode() == theirs.grid.encode()).all()
            grid, mask = theirs.gen_obs_grid()
            cells = look(ours)
            assert len(cells) == mask.sum()
            for thing, _, _, ahead, right in cells:
                seen = grid.get(3 + right, 6 - ahead)
                assert mask[3 + right, 6 - ahead]
                if (ahead, right) != (0, 0):  # minigrid shows there what is carried
                    assert (thing and thing.encode()) == (seen and seen.encode())
            move = rng.randrange(7)
            assert ours.step(move)[1:4] == theirs.step(move)[1:4]


def test_a_level_starts_fresh_whatever_was_built_before() -> None:
    alone = build("BabyAI-BossLevel-v0", 5).grid.encode().tolist()
    build("BabyAI-BossLevel-v0", 4)
    assert build("BabyAI-BossLevel-v0", 5).grid.encode().tolist() == alone


def test_minigrids_prints_stay_inside(capfd: pytest.CaptureFixture[str]) -> None:
    seed = next(seed for seed in range(50) if raw("BabyAI-GoToLocal-v0", seed)[1] or raw(LEVELS[23], seed)[1])
    env = BabyAIEnv()
    for level_id in ("BabyAI-GoToLocal-v0", LEVELS[23]):
        env.reset(options={"task_id": f"babyai/{level_id}/{seed:04d}"})
    assert capfd.readouterr() == ("", "")


# -- the default rules ------------------------------------------------------------------------------------------------


def test_an_observation_tells_what_is_in_sight_ahead_and_in_hand() -> None:
    play = room((2, 3, Ball("red")), (3, 2, Box("blue")), (5, 4, Key("green")))
    assert play.text() == (
        "In sight: blue box 1 (3 ahead); red ball 1 (2 ahead, 1 left); green key 1 (1 ahead, 2 right).\n"
        "Ahead: box, 3 steps away.\nIn hand: nothing."
    )
    play.play("pick up green key 1")
    assert play.text().endswith("\nIn hand: green key 1.")


def test_an_object_keeps_its_number_wherever_it_goes() -> None:
    near, far = Ball("red"), Ball("red")
    play = room((2, 4, near), (5, 1, far))
    assert [play.known[thing].label for thing in (near, far)] == ["red ball 1", "red ball 2"]
    for command in ("pick up red ball 1", "go to red ball 2", "turn left", "turn left", "drop"):
        assert play.play(command).status is OK, command
    assert [play.known[thing].label for thing in (near, far)] == ["red ball 1", "red ball 2"]
    assert play.known[near][2:] != (2, 4)
    copy = Play.thaw(play.level_id, pickle.loads(pickle.dumps(play.freeze())))
    assert copy.text() == play.text()
    assert [known.label for known in copy.known.values()] == ["red ball 1", "red ball 2"]


@pytest.mark.parametrize(
    "command",
    ["go to red ball 1", "go to the red ball", "go to a ball", "go to ball 1", "go to red ball"],
)
def test_objects_may_be_named_loosely_where_only_one_is_meant(command: str) -> None:
    outcome = room((2, 3, Ball("red")), (5, 3, Key("red"))).play(command)
    assert (outcome.status, outcome.action) == (OK, "go to red ball 1")


@pytest.mark.parametrize("command", ["pick up red ball 1", "pickup red ball 1", "pickup the red ball"])
def test_pickup_is_pick_up(command: str) -> None:
    play = room((2, 3, Ball("red")))
    outcome = play.play(command)
    assert (outcome.status, outcome.action, play.carrying) == (OK, "pick up red ball 1", "red ball 1")
    assert play.play("pickup").status is INVALID


def test_commands_walk_the_shortest_way_over_what_was_seen() -> None:
    play = room((2, 1, Ball("red")), (3, 4, Box("grey")))
    before = play.level.step_count
    assert play.play("go to red ball").status is OK
    assert play.level.step_count - before == 6  # left, forward, right, forward x 3
    again = play.play("go to red ball 1")
    assert (again.status, play.level.step_count - before) == (NO_EFFECT, 6)


def test_doors_are_gone_through_opened_and_locked() -> None:
    closed = room((3, 0, Door("red")))
    assert "use toggle and go through" in closed.play("go through red door 1").observation
    assert closed.play("toggle and go through closed red door 1").status is OK
    assert tuple(closed.level.agent_pos) == (3, 0)
    assert closed.play("toggle and go through red door 1").status is NO_EFFECT
    open_door = room((3, 0, Door("red", is_open=True)))
    assert open_door.play("toggle and go through red open door 1").status is OK
    assert open_door.level.grid.get(3, 0).is_open
    locked = room((3, 0, Door("red", is_locked=True)), (2, 4, Key("red")), (4, 4, Key("blue")))
    assert "locked" in locked.play("toggle and go through red door").observation
    locked.play("pick up blue key")
    assert locked.play("toggle and go through red door").status is INVALID
    locked.play("drop")
    locked.play("pick up red key")
    assert locked.play("toggle and go through red door").status is OK
    assert tuple(locked.level.agent_pos) == (3, 0)


def test_a_refusal_says_why() -> None:
    wall = [(x, 3, Wall()) for x in (1, 2, 4, 5, 6)]
    play = room(*wall, (3, 3, Box("blue")), (3, 1, Ball("red")), (2, 4, Ball("grey")), (4, 4, Ball("grey")))
    for command, status, reason in [
        ("go to red ball 1", INVALID, "blue box 1 is in the way"),
        ("go to green ball 1", INVALID, "not seen any green ball 1"),
        ("go to grey ball", INVALID, "Which grey ball do you mean? You know: grey ball 1, grey ball 2"),
        ("go through blue box", INVALID, "not a door"),
        ("pick up", INVALID, "nothing in front of you to pick up"),
        ("drop", INVALID, "You carry nothing"),
        ("toggle", INVALID, "nothing in front of you to toggle"),
        ("done", NO_EFFECT, "Nothing changes"),
        ("dance", UNPARSED, "The commands are: turn left"),
        ("go to red ball ١", INVALID, "not seen any"),
    ]:
        outcome = play.play(command)
        assert (outcome.status, reason in outcome.observation) == (status, True), (command, outcome)
    play.play("pick up grey ball 1")
    for command, reason in [
        ("pick up grey ball 2", "You carry grey ball 1 already"),
        ("go to grey ball 1", "in your hand"),
    ]:
        outcome = play.play(command)
        assert (outcome.status, reason in outcome.observation) == (INVALID, True), (command, outcome)
    play.play("go to blue box 1")
    assert "is in the way" in play.play("move forward").observation
    assert "no room to drop" in play.play("drop").observation
    assert play.play("toggle").status is OK
    assert "no blue box 1 any more" in play.play("go to blue box 1").observation


def test_a_closed_door_in_the_way_is_named() -> None:
    wall = [(x, 3, Wall()) for x in (1, 2, 4, 5, 6)]
    play = room(*wall, (3, 3, Door("blue", is_open=True)), (3, 1, Ball("red")), at=(3, 4))
    play.play("toggle")
    assert "blue door 1 is closed" in play.play("go to red ball 1").observation


def test_an_opened_box_shows_what_was_in_it() -> None:
    play = room((3, 4, Box("blue", contains=Key("red"))))
    assert "red key 1 (1 ahead)" in play.play("toggle").observation
    assert play.play("pick up red key 1").status is OK


def test_every_admissible_action_changes_something() -> None:
    for index in range(40):
        env = BabyAIEnv()
        env.reset(options={"task_id": f"babyai/test/{index:04d}"})
        start = env.snapshot()
        for action in env.admissible_actions():
            env.restore(start)
            assert env.step(action)[-1]["action_status"] is OK, action


# -- missions ---------------------------------------------------------------------------------------------------------


def test_missions_keep_their_order_except_by_agentgyms_rules() -> None:
    goals = {}
    for rules in ("default", "agentgym"):
        env = BabyAIEnv(rules=rules)
        goals[rules] = [env.task(f"babyai/BabyAI-GoToSeq-v0/{seed:04d}").goal for seed in range(20)]
    assert any(", then" in goal for goal in goals["default"])
    assert any("after you" in goal for goal in goals["default"])
    assert not any("then" in goal or "after" in goal for goal in goals["agentgym"])


def test_the_wrong_object_fails_a_strict_mission() -> None:
    env = BabyAIEnv()
    for seed in range(10):
        env.reset(options={"task_id": f"babyai/BabyAI-PickupDistDebug-v0/{seed:04d}"})
        wrong = [
            thing
            for thing in env.level.grid.grid
            if thing and thing.can_pickup() and thing not in env.level.instrs.desc.obj_set
        ]
        for action in env.admissible_actions():
            if action.startswith("pick up ") and any(f" {thing.color} {thing.type} " in action for thing in wrong):
                observation, reward, terminated, _, info = env.step(action)
                if not info["success"]:
                    assert (reward, terminated, info["stop_reason"]) == (0.0, True, StopReason.FAILURE)
                    assert "failed" in observation
                    return
                break
    pytest.fail("no such mission among the seeds")


def test_the_levels_own_budget_of_moves_ends_an_episode() -> None:
    env = BabyAIEnv(actions="primitive")
    env.reset(options={"task_id": "babyai/BabyAI-GoToObjS4-v0/0003"})
    for step in range(16):
        observation, _, terminated, truncated, info = env.step("done")
        assert truncated is (step == 15)
    assert not terminated
    assert info["stop_reason"] is StopReason.MAX_STEPS
    assert "allows 16 moves" in observation


def test_the_score_is_the_share_of_the_parts_that_are_done() -> None:
    env = BabyAIEnv()
    env.reset(options={"task_id": "babyai/BabyAI-MoveTwoAcrossS5N2-v0/0000"})
    scores = []
    info: dict[str, Any] = {"stop_reason": None}
    while info["stop_reason"] is None:
        info = env.step(env.expert.action())[-1]
        scores.append(info["score"])
    assert sorted(set(scores)) == [0.0, 0.5, 1.0]
    assert scores == sorted(scores)


def test_primitive_actions_are_minigrids_and_nothing_else() -> None:
    env = BabyAIEnv(actions="primitive", admissible_actions=True)
    _, info = env.reset(options={"task_id": "babyai/test/0004"})
    assert set(info["admissible_actions"]) <= {"turn left", "turn right", "move forward", "pick up", "drop", "toggle"}
    assert env.step("go to red ball 1")[-1]["action_status"] is UNPARSED
    theirs, _ = raw(*env.current_task.data)
    env.reset(options={"task_id": "babyai/test/0004"})
    for move, action in enumerate(("turn left", "turn right", "move forward", "pick up", "drop", "toggle", "done")):
        theirs.step(move)
        info = env.step(action)[-1]
        assert (tuple(info["position"]), info["direction"]) == (tuple(theirs.agent_pos), theirs.agent_dir)
    assert info["moves"] == 7


# -- AgentGym's rules -------------------------------------------------------------------------------------------------


def test_by_agentgyms_rules_an_object_in_hand_from_the_start_is_still_seen_where_it_lay() -> None:
    env = BabyAIEnv(rules="agentgym")
    _, info = env.reset(options={"task_id": "babyai/agentgym/0022"})
    assert info["carrying"]
    ghosts = [seed for seed in range(20) if carried_in_sight(env, seed)]
    assert ghosts
    env.restore(env.snapshot())


def carried_in_sight(env: BabyAIEnv, seed: int) -> bool:
    _, info = env.reset(options={"task_id": f"babyai/BabyAI-PutNextS7N4Carrying-v0/{seed:04d}"})
    before = {(name, ahead, right) for name, _, ahead, right in info["visible"]}
    env.step("turn left")
    after = {(name, ahead, right) for name, _, ahead, right in env.step("turn right")[-1]["visible"]}
    return any(name == info["carrying"] for name, _, _ in before - after)


def test_by_agentgyms_rules_a_mission_accomplished_on_the_way_is_overlooked() -> None:
    env = BabyAIEnv(rules="agentgym")
    env.reset(options={"task_id": "babyai/BabyAI-OpenRedDoor-v0/0000"})
    while not any("toggle and go" in action for action in env.admissible_actions()):
        env.step("turn left")
    through = next(action for action in env.admissible_actions() if "toggle and go" in action)
    start = env.snapshot()
    assert not env.step(through)[-1]["success"]
    env.restore(start)
    env.step(through.replace("toggle and go through", "go to"))
    assert env.step("toggle")[-1]["success"]


# -- tasks ------------------------------------------------------------------------------------------------------------


def test_splits_are_balanced_over_the_forty_levels() -> None:
    assert len(set(LEVELS)) == 40
    assert set(LEVELS) <= set(level_ids())
    env = BabyAIEnv()
    assert [env.splits[split] % 40 for split in env.splits] == [0, 0, 0]
    assert [find("test", 40 + number)[0] for number in range(40)] == list(LEVELS)
    assert find("agentgym", 9115)[:2] == (LEVELS[9115 % 40], 9115 // 40)


def test_levels_with_few_missions_have_no_training_task_among_the_test_tasks() -> None:
    env = BabyAIEnv()
    for number in (LEVELS.index(f"BabyAI-{name}-v0") for name in ("GoToObjS4", "OpenRedDoor", "OpenRedBlueDoorsDebug")):
        shown: dict[str, set[Any]] = {"train": set(), "test": set()}
        for split, some in shown.items():
            for index in range(number, env.splits[split], 40):
                level = find(split, index)[2]
                pose = (*map(int, level.agent_pos), int(level.agent_dir))
                some.add((level.mission, pose, level.grid.encode().tobytes()))
        assert not shown["train"] & shown["test"]


def test_any_level_can_be_played_by_name() -> None:
    env = BabyAIEnv()
    task = env.task("babyai/BabyAI-GoToDoor-v0/0007")
    assert task.data == ("BabyAI-GoToDoor-v0", 7)
    _, info = env.reset(options={"task_id": task.id})
    assert (info["task_id"], info["split"]) == (task.id, "BabyAI-GoToDoor-v0")
    for wrong, hint in [
        ("babyai/BabyAI-GoToDor-v0/0007", "did you mean 'BabyAI-GoToDoor-v0'"),
        ("babyai/BabyAI-GoToDoor-v0/x", "babyai/test/0399"),
        ("babyai/BabyAI-GoToDoor-v0/99999999999", "Valid"),
        ("babyai/test/0400", "babyai/test/0399"),
    ]:
        with pytest.raises(UnknownNameError, match=hint):
            env.task(wrong)
    with pytest.raises(UnknownNameError, match="did you mean 'primitive'"):
        BabyAIEnv(actions="primitives")
