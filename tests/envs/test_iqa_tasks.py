"""IQA's tasks: what is asked, that it can be found out, and that nothing but looking answers it."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict

import pytest

from adaplan_envs.iqa.env import REACH, IQAEnv
from adaplan_envs.iqa.look import House
from adaplan_envs.iqa.scene import FURNITURE, OBJECTS, Problem, Scene, make_problem
from adaplan_envs.iqa.sight import AHEAD, cells, sight

TEST = [make_problem("test", index) for index in range(IQAEnv.splits["test"])]
TRAIN = [make_problem("train", index) for index in range(IQAEnv.splits["train"])]


def truth(problem: Problem) -> str:
    """Answer by counting in the scene, independently of how it was made."""
    scene, question = problem.scene, problem.question
    number = sum(
        item.kind == question.target and question.place in (None, scene.places[item.place].kind) for item in scene.items
    )
    return str(number) if question.kind == "counting" else "yes" if number else "no"


def free(scene: Scene) -> int:
    return scene.floor & ~scene.solid


def test_there_are_thirteen_objects_and_seven_receptacles_of_which_four_open() -> None:
    assert len(OBJECTS) == 13
    assert len(FURNITURE) == 7
    assert sorted(kind for kind in FURNITURE if FURNITURE[kind].opens) == ["cabinet", "drawer", "fridge", "microwave"]


@pytest.mark.parametrize("problems", [TEST, TRAIN], ids=["test", "train"])
def test_every_answer_is_true(problems: list[Problem]) -> None:
    assert [truth(problem) for problem in problems] == [problem.answer for problem in problems]


@pytest.mark.parametrize("problems", [TEST, TRAIN], ids=["test", "train"])
def test_the_receptacle_asked_about_is_the_only_one_of_its_class(problems: list[Problem]) -> None:
    for problem in problems:
        if problem.question.place is not None:
            assert [place.kind for place in problem.scene.places].count(problem.question.place) == 1


def test_all_three_questions_and_house_sizes_occur_about_equally_often() -> None:
    assert Counter(problem.question.kind for problem in TEST) == {"existence": 56, "containment": 54, "counting": 52}
    rooms = Counter(problem.scene.rooms for problem in TRAIN)
    assert min(rooms.values()) > 0.3 * len(TRAIN)


def test_every_object_and_receptacle_class_is_asked_about() -> None:
    assert {problem.question.target for problem in TRAIN} == set(OBJECTS)
    assert {problem.question.place for problem in TRAIN} == {*FURNITURE, None}


def test_train_and_test_share_no_house() -> None:
    def houses(problems: list[Problem]) -> set[tuple[object, ...]]:
        return {(problem.scene.walls, problem.scene.places, problem.scene.start) for problem in problems}

    assert not houses(TEST) & houses(TRAIN)


def test_tasks_never_change() -> None:
    some = repr([TEST[0], TEST[7], TEST[161], TRAIN[0], TRAIN[1464]])
    assert hashlib.sha256(some.encode()).hexdigest()[:16] == "f7d0a9edfbbd4891"


# -- no answer without looking --------------------------------------------------------------------------------------


def best_constant(problems: list[Problem], key: str) -> dict[str, float]:
    """Return, for each kind of question, how often the best answer for each `key` is right: what guessing can reach."""
    answers: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for problem in problems:
        answers[problem.question.kind][getattr(problem.question, key)][problem.answer] += 1
    return {
        kind: sum(max(counts.values()) for counts in by_key.values()) / sum(map(Counter.total, by_key.values()))
        for kind, by_key in answers.items()
    }


@pytest.mark.parametrize("key", ["kind", "text"])
@pytest.mark.parametrize("problems", [TEST, TRAIN], ids=["test", "train"])
def test_no_answer_that_depends_on_the_question_alone_beats_chance(problems: list[Problem], key: str) -> None:
    right = best_constant(problems, key)
    assert right["existence"] <= 0.55
    assert right["containment"] <= 0.55
    assert right["counting"] <= 0.30


def test_numbers_of_objects_and_receptacles_say_nothing() -> None:
    sizes: dict[tuple[str, int, int], Counter[str]] = defaultdict(Counter)
    for problem in TEST:
        sizes[problem.question.kind, len(problem.scene.items), len(problem.scene.places)][problem.answer] += 1
    for answers in sizes.values():
        assert len(set(answers.values())) == 1


def test_members_of_a_group_differ_in_the_objects_at_the_places_that_matter_and_nowhere_else() -> None:
    groups: dict[tuple[object, ...], list[Problem]] = defaultdict(list)
    for problem in TEST:
        scene = problem.scene
        groups[problem.question, scene.walls, scene.places, scene.start, scene.heading].append(problem)
    for members in groups.values():
        question = members[0].question
        assert sorted(member.answer for member in members) == sorted(question.answers)
        keys = 3 if question.kind == "counting" else 1
        first = Counter(members[0].scene.items)
        for other in members[1:]:
            assert (first - Counter(other.scene.items)).total() <= keys
            assert len(other.scene.items) == first.total()


def test_the_class_asked_about_may_also_lie_elsewhere() -> None:
    elsewhere = Counter(
        (problem.answer, any(
            item.kind == problem.question.target and problem.scene.places[item.place].kind != problem.question.place
            for item in problem.scene.items
        ))
        for problem in TRAIN
        if problem.question.place is not None
    )  # fmt: skip
    assert elsewhere["yes", True] == elsewhere["no", True] > 100
    assert elsewhere["yes", False] == elsewhere["no", False] > 100


# -- every answer can be found out ----------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", TEST[::7] + TRAIN[::70], ids=lambda problem: problem.question.text)
def test_all_can_be_reached_seen_and_opened(problem: Problem) -> None:
    scene = problem.scene
    house = House(scene, sight(2.0, 120.0))
    reached, edge = {scene.start}, [scene.start]
    while edge:
        neighbours = {cell + step for cell in edge for step in AHEAD if free(scene) >> cell + step & 1}
        edge = list(neighbours - reached)
        reached |= neighbours
    assert reached == set(cells(free(scene)))
    views = [house.view(cell, heading) for cell in reached for heading in range(4)]
    seen = 0
    for view in views:
        seen |= view.cells
    for number, place in enumerate(scene.places):
        if FURNITURE[place.kind].opens:
            assert any(round(view.distance_to(number) or 9, 1) <= REACH for view in views)
        else:
            assert place.cells & ~seen == 0


@pytest.mark.parametrize("problem", TEST[::9], ids=lambda problem: problem.question.text)
def test_things_stand_where_they_can(problem: Problem) -> None:
    scene = problem.scene
    taken = 0
    for place in scene.places:
        assert place.cells & ~scene.floor == 0
        assert not place.cells & taken
        taken |= place.cells
    assert not any(doorway & taken for doorway in scene.doorways)
    assert len(scene.doorways) == scene.rooms - 1
    on_top = [item.cell for item in scene.items if item.cell is not None]
    assert len(on_top) == len(set(on_top))
    for item in scene.items:
        place = scene.places[item.place]
        assert (item.cell is None) == FURNITURE[place.kind].opens
        assert item.cell is None or place.cells >> item.cell & 1
