"""The LLM judge: what it asks, what it accepts, and what becomes of its failures."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest

from adaplan_agents.models import ScriptedModel
from adaplan_envs.chat import ChatReply
from adaplan_envs.errors import ConfigError, ModelAccessError, ModelError, UnknownNameError
from adaplan_evaluation import Episode
from adaplan_evaluation.judges import (
    TERMS,
    JudgementStatus,
    LLMJudge,
    Panel,
    RulesJudge,
    judge_episode,
    judge_episodes,
    load_judge,
)
from tests.evaluation.judging import careful
from tests.evaluation.planners import ExpertPlanner, play

MAZE = "AdaPlan/Maze-v0"


@pytest.fixture(scope="module")
def solved() -> Episode:
    return play(ExpertPlanner(), MAZE, "maze/test/0001")


class Recorder:
    """Answers from a list, and keeps what it was asked."""

    name = "recorder"

    def __init__(self, *answers: str | Exception) -> None:
        self.answers, self.asked = list(answers), []

    async def chat(self, messages: Any, sampling: Any = None) -> ChatReply:
        self.asked.append([dict(message) for message in messages])
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return ChatReply(answer)


def test_a_model_that_judges_well_agrees_with_the_rules(solved: Episode) -> None:
    lost = play("random", MAZE, "maze/test/0001", max_steps=3)
    slow = play(ExpertPlanner(idle=("look", 30)), MAZE, "maze/test/0001")
    for episode in (solved, lost, slow):
        found = judge_episode(episode, judge=LLMJudge(careful()))
        truth = judge_episode(episode)
        assert {term: (each.status, each.score) for term, each in found.items()} == {
            term: (each.status, each.score) for term, each in truth.items()
        }
        assert found["e2e"].value == truth["e2e"].value


def test_the_prompt_holds_rules_goal_reference_and_trajectory_but_not_the_verdict(solved: Episode) -> None:
    model = Recorder('{"reason": "x", "score": 2}')
    judge_episode(solved, ["e2e"], LLMJudge(model))
    ((system, user),) = model.asked
    assert system["role"] == "system"
    text = user["content"]
    for part in (
        "Find your way through a maze",
        solved.goal,
        "1. move ",
        solved.turns[3].observation,
        "reached the goal.",
    ):
        assert part in text
    assert "success" not in text.lower() and "{{" not in text


def test_every_prompt_is_filled(solved: Episode) -> None:
    for term in TERMS:
        model = Recorder("{}", "{}")
        assert judge_episode(solved, [term], LLMJudge(model))[term].status is JudgementStatus.ERROR
        assert all("{{" not in message["content"] for message in model.asked[1])


@pytest.mark.parametrize("answer", [
    '{"score": 2}', 'Sure:\n```json\n{"reason": "good", "score": "2"}\n```', '{"a": 1} and then {"score": 2}',
    '<think>{"score": 0}</think>{"score": 2.0}', '{"score": 2} }{',
])  # fmt: skip
def test_an_answer_is_understood_whatever_stands_around_it(solved: Episode, answer: str) -> None:
    assert judge_episode(solved, ["e2e"], LLMJudge(Recorder(answer)))["e2e"].score == 2


@pytest.mark.parametrize(
    "answer", ["", "2", "{", '{"score": 3}', '{"score": true}', '{"score": null}', "[2]", "{" * 5000]
)
def test_an_unusable_answer_is_asked_for_once_more_and_then_no_score(solved: Episode, answer: str) -> None:
    model = Recorder(answer, '{"score": 1}')
    assert judge_episode(solved, ["e2e"], LLMJudge(model))["e2e"].score == 1
    assert [message["role"] for message in model.asked[1]] == ["system", "user", "assistant", "user"]
    judge = LLMJudge(Recorder(answer, answer))
    found = judge_episode(solved, ["e2e"], judge)["e2e"]
    assert (found.status, found.score, found.value) == (JudgementStatus.ERROR, None, None)
    assert judge.failures == {"asked again": 1, "unusable": 1}


def test_adherence_needs_a_score_for_each_action(solved: Episode) -> None:
    few, right = '{"scores": [2]}', f'{{"scores": {[2] * (solved.steps - 1) + [1]}}}'
    found = judge_episode(solved, ["adherence"], LLMJudge(Recorder(few, right)))["adherence"]
    assert found.score == pytest.approx(2 - 1 / solved.steps)
    assert found.parts[str(solved.steps)] == 1


def test_a_model_that_fails_is_an_error_and_one_that_can_not_be_used_stops(solved: Episode) -> None:
    judge = LLMJudge(Recorder(ModelError("server on fire")))
    found = judge_episode(solved, ["e2e"], judge)["e2e"]
    assert found.status is JudgementStatus.ERROR and "on fire" in found.reason
    assert judge.failures == {"model": 1}
    for call in (
        lambda: judge_episode(solved, ["e2e"], LLMJudge(Recorder(ModelAccessError("no key")))),
        lambda: asyncio.run(
            judge_episodes([solved] * 3, ["e2e"], LLMJudge(Recorder(*[ModelAccessError("no key")] * 3)))
        ),
    ):
        with pytest.raises(ModelAccessError):
            call()


def test_nothing_is_asked_where_there_is_nothing_to_judge(solved: Episode) -> None:
    model = Recorder()
    found = judge_episode(play("expert", MAZE, "maze/test/0001"), ["adherence", "plan_quality"], LLMJudge(model))
    assert {each.status for each in found.values()} == {JudgementStatus.NOT_APPLICABLE} and not model.asked


async def test_it_works_where_a_loop_is_running(solved: Episode) -> None:
    assert judge_episode(solved, ["e2e"], LLMJudge(careful()))["e2e"].score == 2


async def test_as_many_are_asked_at_once_as_was_said(solved: Episode) -> None:
    running, most = 0, 0

    async def slow(messages: Any) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return '{"score": 2}'

    found = await judge_episodes([solved] * 12, ["e2e"], LLMJudge(ScriptedModel(slow)), concurrency=4)
    assert len(found) == 12 and most == 4


def scores(*values: float | None) -> Panel:
    answers = [Recorder(*(["{}"] * 2 if value is None else [f'{{"score": {value}}}'])) for value in values]
    return Panel([LLMJudge(answer) for answer in answers])


@pytest.mark.parametrize(("votes", "score"), [
    ((2, 2, 0), 2), ((0, 1, 2), 1), ((2, None, 2), 2), ((2, 1), 1), ((2, None), None), ((None, None, 1), None),
])  # fmt: skip
def test_a_panel_takes_the_median_of_those_that_answer(solved: Episode, votes: Any, score: float | None) -> None:
    found = judge_episode(solved, ["e2e"], scores(*votes))["e2e"]
    assert found.score == score and found.ok is (score is not None)


def test_a_panel_of_equal_judges_is_that_judge(solved: Episode) -> None:
    one, three = RulesJudge(), Panel([RulesJudge() for _ in range(3)])
    alone, together = judge_episode(solved, judge=one), judge_episode(solved, judge=three)
    assert {term: each.score for term, each in alone.items()} == {term: each.score for term, each in together.items()}
    asyncio.run(three.aclose())


def test_prompts_can_be_replaced(solved: Episode, tmp_path: Any) -> None:
    (tmp_path / "e2e.md").write_text("Solved? {{trajectory}}")
    model = Recorder('{"score": 2}')
    judge = LLMJudge(model, prompts=tmp_path)
    judge_episode(solved, ["e2e"], judge)
    assert model.asked[0][1]["content"].startswith("Solved? <observation>")
    assert judge.describe()["prompts"] == {"e2e": "Solved? {{trajectory}}"}


def test_long_texts_are_clipped(solved: Episode) -> None:
    turns = [dataclasses.replace(turn, observation="x" * 50_000) for turn in solved.turns]
    model = Recorder('{"score": 2}')
    judge_episode(dataclasses.replace(solved, turns=tuple(turns)), ["e2e"], LLMJudge(model))
    assert len(model.asked[0][1]["content"]) < 2_000 * (solved.steps + 2)


def test_judges_by_name() -> None:
    assert isinstance(load_judge("rules", slack=1.0), RulesJudge)
    panel = load_judge(["rules", "rules"])
    assert isinstance(panel, Panel) and panel.describe()["judges"][0]["slack"] == 0.5
    with pytest.raises(UnknownNameError, match="openai"):
        load_judge("opnai:x")
    with pytest.raises(ConfigError, match="which judge"):
        load_judge([])
