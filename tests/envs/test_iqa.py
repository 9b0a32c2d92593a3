"""IQA's episodes: what is seen, what actions do, and that the expert knows no more than it saw."""

from __future__ import annotations

import pickle
import random
from dataclasses import replace

import numpy as np
import pytest

from adaplan_envs import ActionStatus, StopReason, Task
from adaplan_envs.core import stable_rng
from adaplan_envs.errors import ConfigError, NoPlanError
from adaplan_envs.iqa.env import IQAEnv
from adaplan_envs.iqa.scene import FURNITURE, Item, Place, Problem, Question, Scene
from adaplan_envs.iqa.sight import CELL, STRIDE, beside


def box(x: int, y: int, width: int = 1, height: int = 1) -> int:
    return sum(1 << j * STRIDE + i for i in range(x, x + width) for j in range(y, y + height))


def at(x: int, y: int) -> int:
    return y * STRIDE + x


def begin(places: list[Place], items: list[Item], start: int, question: Question, **options: object) -> IQAEnv:
    """Return an environment in a single room of 11 x 11 cells, facing north from `start`."""
    floor = box(1, 1, 11, 11)
    walls = box(0, 0, 13, 13) & ~floor
    scene = Scene(1, walls, floor, (), tuple(places), tuple(items), start, 0)
    env = IQAEnv(**options)  # type: ignore[arg-type]
    task = Task("iqa/test/0000", "test", 0, question.text, 1, Problem(scene, question, "yes"))
    env.make_task = lambda split, index: task  # type: ignore[method-assign]
    env.reset()
    return env


MUG = Question("existence", "mug")
TABLE, FRIDGE, DRAWER = Place("table", box(5, 4, 3, 2)), Place("fridge", box(5, 4, 2, 2)), Place("drawer", box(5, 4, 2))


def test_an_observation_says_heading_way_ahead_and_what_is_where() -> None:
    items = [Item("mug", 0, at(5, 4)), Item("egg", 0, at(7, 5))]
    env = begin([TABLE], items, at(5, 8), MUG)
    observation, _ = env.reset()
    assert observation.splitlines() == [
        "Is there a mug in the house? (Answer yes or no.)",
        "You face north. The way ahead is clear for 0.5 m, then comes table 1.",
        "Left: nothing.",
        "Front: table 1 (0.8 m), mug 1 on table 1 (1.0 m).",
        "Right: egg 1 on table 1 (0.9 m).",
    ]


def test_only_tall_things_block_sight() -> None:
    behind = Place("counter", box(4, 1, 4, 2))
    items = [Item("mug", 1, at(5, 2))]
    over_a_table = begin([TABLE, behind], items, at(5, 8), MUG)
    assert "mug 1 on counter 1" in over_a_table._observation
    behind_a_fridge = begin([FRIDGE, behind], items, at(5, 8), MUG)
    assert "mug 1" not in behind_a_fridge._observation


@pytest.mark.parametrize(
    ("options", "seen"),
    [({}, False), ({"view_range": 2.5}, True), ({"view_range": 2.5, "view_angle": 60.0}, True)],
)
def test_range_is_as_asked(options: dict[str, float], seen: bool) -> None:
    env = begin([Place("table", box(5, 1, 3, 2))], [Item("mug", 0, at(6, 1))], at(6, 10), MUG, **options)
    assert ("mug 1" in env._observation) == seen


@pytest.mark.parametrize(("angle", "seen"), [(60.0, False), (100.0, True), (180.0, True)])
def test_angle_is_as_asked(angle: float, seen: bool) -> None:
    env = begin([Place("table", box(3, 5, 2, 2))], [Item("mug", 0, at(3, 5))], at(6, 8), MUG, view_angle=angle)
    assert ("mug 1" in env._observation) == seen  # 45 degrees to the left


def test_contents_show_only_while_open() -> None:
    env = begin([DRAWER], [Item("mug", 0, None)], at(5, 6), MUG)
    assert "mug 1" not in env._observation
    observation, _, _, _, info = env.step("open drawer 1")
    assert "drawer 1 (open, 0.5 m), mug 1 in drawer 1 (0.5 m)" in observation
    assert info["action_status"] == ActionStatus.OK
    observation = env.step("Close the Drawer")[0]
    assert "drawer 1 (closed, 0.5 m)" in observation
    assert "mug" not in observation
    assert "mug 1 in drawer 1" in env.step("open_drawer")[0]


def test_things_are_numbered_in_the_order_of_first_sight_and_keep_their_number() -> None:
    west, east = Place("table", box(2, 4, 2, 2)), Place("table", box(9, 4, 2, 2))
    env = begin([west, east], [Item("mug", 0, at(3, 4)), Item("mug", 1, at(9, 4))], at(6, 5), MUG)
    env.step("turn right")
    assert "mug 1 on table 1" in env._observation
    env.step("turn left")
    env.step("turn left")
    assert "mug 2 on table 2" in env._observation
    assert "mug 1" not in env._observation
    env.step("turn left")
    env.step("turn left")
    assert "mug 1 on table 1" in env._observation


@pytest.mark.parametrize("spelling", ["move ahead", "Move  Forward", "move_ahead", "go ahead.", "[step forward]"])
def test_walking_has_many_spellings(spelling: str) -> None:
    env = begin([TABLE], [], at(5, 8), MUG)
    info = env.step(spelling)[4]
    assert (info["action"], info["action_status"]) == ("move ahead", ActionStatus.OK)
    assert env._state.cell == at(5, 7)


@pytest.mark.parametrize(
    ("action", "status", "words"),
    [
        ("move ahead", ActionStatus.NO_EFFECT, "The drawer 1 is in the way."),
        ("close drawer 1", ActionStatus.NO_EFFECT, "closed already"),
        ("open table 1", ActionStatus.INVALID, "does not open or close"),
        ("open fridge 1", ActionStatus.INVALID, "1.1 m away, out of reach: come within 1 m"),
        ("open drawer 2", ActionStatus.INVALID, "There is no drawer 2 in view"),
        ("open microwave", ActionStatus.INVALID, "There is no microwave in view"),
        ("answer 2", ActionStatus.INVALID, "one of: yes, no"),
        ("answer", ActionStatus.INVALID, "one of: yes, no"),
        ("jump", ActionStatus.UNPARSED, "Actions: move ahead"),
        ("", ActionStatus.UNPARSED, "Actions: move ahead"),
        ("turn", ActionStatus.UNPARSED, "Actions: move ahead"),
    ],
)
def test_what_does_nothing_says_why_and_leaves_all_as_it_was(action: str, status: ActionStatus, words: str) -> None:
    places = [DRAWER, Place("table", box(8, 2, 2, 2)), Place("fridge", box(2, 1, 2))]
    env = begin(places, [], at(5, 5), MUG)
    before = pickle.dumps(env._state)
    observation, reward, terminated, truncated, info = env.step(action)
    assert info["action_status"] == status
    assert words in observation
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert pickle.dumps(env._state) == before


@pytest.mark.parametrize("action", ["answer yes", "Answer: YES.", "answer [yes]", "ANSWER 'yes'"])
def test_the_right_answer_ends_the_episode_with_success(action: str) -> None:
    env = begin([TABLE], [], at(5, 8), MUG)
    _, reward, terminated, truncated, info = env.step(action)
    assert (reward, terminated, truncated, info["success"]) == (1.0, True, False, True)
    assert (info["action"], info["stop_reason"]) == ("answer yes", StopReason.SUCCESS)


def test_a_wrong_answer_ends_the_episode_without_success() -> None:
    env = begin([TABLE], [], at(5, 8), MUG)
    _, reward, terminated, truncated, info = env.step("answer no")
    assert (reward, terminated, truncated, info["success"]) == (0.0, True, False, False)
    assert info["stop_reason"] == StopReason.FAILURE
    with pytest.raises(NoPlanError, match="answered"):
        env.expert.action()


def test_numbers_may_be_words() -> None:
    env = begin([TABLE], [], at(5, 8), Question("counting", "mug"))
    assert env.step("answer four")[4]["action_status"] == ActionStatus.INVALID
    assert env.step("answer Two")[4]["action"] == "answer 2"


def test_the_step_limit_truncates_and_answers_nothing() -> None:
    env = IQAEnv(split="test", max_steps=2)
    env.reset(seed=0)
    env.step("turn left")
    _, reward, terminated, truncated, info = env.step("turn left")
    assert (reward, terminated, truncated, info["stop_reason"]) == (0.0, False, True, StopReason.MAX_STEPS)
    assert env._state.answer is None


def test_admissible_actions_are_those_that_do_something() -> None:
    env = begin([DRAWER], [Item("mug", 0, None)], at(5, 5), MUG, admissible_actions=True)
    assert env.reset()[1]["admissible_actions"] == [
        "turn left", "turn right", "open drawer 1", "answer yes", "answer no",
    ]  # fmt: skip
    assert "close drawer 1" in env.step("open drawer 1")[4]["admissible_actions"]
    assert "move ahead" in env.step("turn left")[4]["admissible_actions"]


def test_every_admissible_action_is_ok() -> None:
    env = IQAEnv(split="test", admissible_actions=True)
    rng = stable_rng("admissible")
    for seed in range(30):
        info = env.reset(seed=seed)[1]
        for _ in range(30):
            assert info["admissible_actions"]
            actions = [action for action in info["admissible_actions"] if not action.startswith("answer")]
            info = env.step(rng.choice(actions))[4]
            assert info["action_status"] == ActionStatus.OK


@pytest.mark.parametrize(
    ("options", "message"),
    [({"view_range": 0.1}, "1 to 4 metres"), ({"view_angle": 10}, "60 to 180 degrees"), ({"view_range": 9}, "1 to 4")],
)
def test_a_view_that_makes_no_sense_is_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        IQAEnv(**options)  # type: ignore[arg-type]


def test_a_snapshot_is_a_branch_point_in_another_process_too() -> None:
    env = IQAEnv(split="test")
    env.reset(options={"task_id": "iqa/test/0010"})
    for _ in range(12):
        env.step(env.expert.action())
    snapshot = pickle.loads(pickle.dumps(env.snapshot()))
    first = [env.step(env.expert.action()) for _ in range(8)]
    other = IQAEnv()
    other.reset(seed=3)
    for _ in range(2):
        other.restore(snapshot)
        assert [other.step(other.expert.action()) for _ in range(8)] == first


def test_the_picture_shows_the_house_from_above() -> None:
    env = begin([DRAWER], [Item("apple", 0, None)], at(5, 6), MUG, render_mode="rgb_array")
    closed = env.render()
    assert closed.dtype == np.uint8
    assert closed.shape == (14 * 28, 13 * 28, 3)  # a line of legend below
    env.step("open drawer")
    changed = np.argwhere((env.render() != closed).any(axis=2)) // 28
    assert {tuple(cell) for cell in changed} <= {(4, 5), (4, 6)}
    assert len(changed)
    env.step("turn left")
    assert (env.render() != closed).any(axis=2).sum() > 28 * 28


# -- the expert -----------------------------------------------------------------------------------------------------


def play_on(env: IQAEnv) -> dict[str, object]:
    while not env._done:
        info = env.step(env.expert.action())[4]
        assert info["action_status"] == ActionStatus.OK
    return info


@pytest.mark.parametrize("split", ["test", "train"])
def test_the_expert_answers_every_question_within_the_limit(split: str) -> None:
    env = IQAEnv(split=split)
    ids = env.task_ids()
    for task_id in ids if split == "test" else stable_rng("iqa").sample(ids, 100):
        env.reset(options={"task_id": task_id})
        assert play_on(env)["success"], task_id


@pytest.mark.parametrize("options", [{"view_range": 1.0}, {"view_angle": 60.0}, {"view_range": 4.0, "view_angle": 180}])
def test_the_expert_answers_with_any_view(options: dict[str, float]) -> None:
    env = IQAEnv(split="test", **options)  # type: ignore[arg-type]
    for task_id in ["iqa/test/0062", *env.task_ids()[::12]]:
        env.reset(options={"task_id": task_id})
        assert play_on(env)["success"], task_id


def test_the_expert_goes_on_from_wherever_it_is() -> None:
    env = IQAEnv(split="test", admissible_actions=True, max_steps=1000)
    rng = stable_rng("wander")
    for task_id in env.task_ids()[::4]:
        info = env.reset(options={"task_id": task_id})[1]
        for _ in range(60):
            actions = [action for action in info["admissible_actions"] if not action.startswith("answer")]
            info = env.step(rng.choice(actions))[4]
        assert play_on(env)["success"], task_id


def test_the_plan_begins_with_the_next_action_and_ends_with_an_answer() -> None:
    env = IQAEnv(split="test")
    for task_id in env.task_ids()[::16]:
        env.reset(options={"task_id": task_id})
        while not env._done:
            plan, action = env.expert.plan(), env.expert.action()
            assert plan[0].startswith(action)
            assert plan[-1].startswith("answer")
            env.step(action)


def unseen_removed(env: IQAEnv, rng: random.Random) -> Scene:
    """Return another house that looks the same so far: what was not in view is gone, or something else."""
    scene, memory = env.problem.scene, env._state.memory
    known = [thing for thing in env._state.names if thing < len(scene.places)]
    kept = [number for number, place in enumerate(scene.places) if number in known]
    numbers = {old: new for new, old in enumerate(kept)}
    # Of a place seen in part only the seen cells remain; unseen floor becomes wall.
    places = tuple(replace(scene.places[old], cells=scene.places[old].cells & memory.seen) for old in kept)
    looked = {name for name, place in memory.places.items() if place.looked_into}
    items = []
    for number, item in enumerate(scene.items):
        seen = len(scene.places) + len(scene.doorways) + number in env._state.names
        if item.place in numbers and (seen or env._state.names[item.place] not in looked):
            kind = item.kind if seen else rng.choice(["apple", "mug", "plate"])
            if item.cell is None or memory.seen >> item.cell & 1:
                items.append(Item(kind, numbers[item.place], item.cell))
    floor = scene.floor & memory.seen
    walls = (beside(scene.walls | scene.floor) | scene.walls | scene.floor) & ~floor
    return replace(scene, walls=walls, floor=floor, places=places, items=tuple(items))


def test_the_expert_decides_by_what_it_saw_whatever_else_the_house_holds() -> None:
    env, twin = IQAEnv(split="test"), IQAEnv(split="test")
    rng = stable_rng("twins")
    compared = 0
    for task_id in env.task_ids()[::9]:
        env.reset(options={"task_id": task_id})
        while not env._done:
            if rng.random() < 0.7:
                env.step(env.expert.action())
                continue
            compared += 1
            snapshot = env.snapshot()
            problem = replace(env.problem, scene=unseen_removed(env, rng))
            twin.restore(replace(snapshot, task=replace(snapshot.task, data=problem)))
            assert twin.expert.plan() == env.expert.plan()
            env.step(env.expert.action())
    assert compared > 100


def test_twin_houses_get_the_same_actions_until_they_look_different() -> None:
    env, twin = IQAEnv(split="test"), IQAEnv(split="test")
    parted = alone = 0
    for index in range(0, 160, 2):
        first, info = env.reset(options={"task_id": f"iqa/test/{index:04d}"})
        second, other = twin.reset(options={"task_id": f"iqa/test/{index + 1:04d}"})
        if info["goal"] != other["goal"]:
            continue
        while first == second:
            action = env.expert.action()
            assert twin.expert.action() == action
            # Their answers differ, so nobody who has seen no difference may answer.
            assert not action.startswith("answer")
            first, second = env.step(action)[0], twin.step(action)[0]
            alone += 1
        parted += 1
    assert parted > 60
    assert alone > 500


def test_an_agent_that_does_not_look_is_right_by_chance() -> None:
    env = IQAEnv(split="test")
    right: dict[str, list[bool]] = {"yes": [], "no": [], "0": [], "1": [], "2": [], "3": []}
    for task_id in env.task_ids():
        env.reset(options={"task_id": task_id})
        for answer in env.problem.question.answers:
            start = env.snapshot()
            right[answer].append(env.step(f"answer {answer}")[4]["success"])
            env.restore(start)
    assert {answer: sum(hits) / len(hits) for answer, hits in right.items()} == {
        "yes": 0.5, "no": 0.5, "0": 0.25, "1": 0.25, "2": 0.25, "3": 0.25,
    }  # fmt: skip


def test_rules_name_all_objects_receptacles_and_actions() -> None:
    rules = IQAEnv().rules
    words = ["mug", "microwave", "move ahead", "turn left", "open X", "close X", "answer V", f"{CELL:g} m", *FURNITURE]
    assert all(word in rules for word in words)
