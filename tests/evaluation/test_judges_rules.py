"""The rules judge: what each score means, by example."""

from __future__ import annotations

import asyncio
import dataclasses
import math
from itertools import pairwise
from typing import Any

import gymnasium
import pytest

from adaplan_agents import Agent, Briefing, Decision, Plan, Session
from adaplan_envs.errors import ConfigError, UnknownNameError
from adaplan_envs.registration import installed_ids
from adaplan_evaluation import Episode
from adaplan_evaluation.judges import TERMS, JudgementStatus, RulesJudge, judge_episode, judge_episodes, judge_plan
from adaplan_evaluation.judges.reading import adherence, commands
from tests.evaluation.games import COUNTER
from tests.evaluation.planners import ExpertPlanner, play

MAZE, TEXTCRAFT = "AdaPlan/Maze-v0", "AdaPlan/TextCraft-v0"


@pytest.fixture(scope="module")
def solved() -> Episode:
    return play(ExpertPlanner(), MAZE, "maze/test/0001")


@pytest.mark.parametrize("env_id", installed_ids())
def test_an_expert_that_plans_gets_full_marks_for_everything_that_can_be_known(env_id: str) -> None:
    env = gymnasium.make(env_id).unwrapped
    ids = env.task_ids("test")  # type: ignore[attr-defined]
    env.close()
    for task_id in ids[:: len(ids) // 3][:3]:
        found = judge_episode(play(ExpertPlanner(), env_id, task_id))
        assert [found[term].value for term in ("format", "adherence", "e2e")] == [1, 1, 1], found
        marks = found["plan_quality"].parts
        assert (marks["executability"], marks["standardisation"]) == (5, 5), found
        if "IQA" not in env_id:  # whose expert can't plan the right answer before it has looked
            assert marks["correctness"] == 5, found


@pytest.mark.slow
@pytest.mark.parametrize("env_id", installed_ids())
def test_expert_trajectories_of_the_test_split_are_efficient(env_id: str) -> None:
    env = gymnasium.make(env_id)
    for task_id in env.unwrapped.task_ids("test")[::8]:  # type: ignore[attr-defined]
        episode = play("expert", env_id, task_id)
        if episode.expert_steps is not None:  # None where the expert itself fails
            assert judge_episode(episode, ["e2e"])["e2e"].score == 2, task_id


@pytest.mark.parametrize("slack", [0.0, 0.25, 0.5, 1.0])
@pytest.mark.parametrize(
    ("env_id", "task_id", "idle"),
    [
        (MAZE, "maze/test/0001", "look"),
        (TEXTCRAFT, "textcraft/test/0003", "inventory"),
    ],
)
def test_useless_steps_make_it_redundant_exactly_where_the_slack_ends(
    env_id: str, task_id: str, idle: str, slack: float
) -> None:
    judge = RulesJudge(slack=slack)
    scores = []
    for extra in range(12):
        episode = play(ExpertPlanner(idle=(idle, extra)), env_id, task_id)
        assert episode.success and episode.steps == (episode.expert_steps or 0) + extra
        scores.append(judge_episode(episode, ["e2e"], judge)["e2e"].score)
    allowed = math.floor(slack * (episode.expert_steps or 0) + 1e-9)
    assert scores == [2 if extra <= allowed else 1 for extra in range(12)]


def test_a_failure_is_zero_and_an_error_is_no_score_at_all(solved: Episode) -> None:
    lost = play("random", MAZE, "maze/test/0001", max_steps=3)
    assert judge_episode(lost, ["e2e"])["e2e"].value == 0
    broken = play(Scripted(["boom"]), COUNTER, "counter/test/0000")
    found = judge_episode(broken)
    verdicts = {term: (each.status, each.score, each.value) for term, each in found.items()}
    assert verdicts == dict.fromkeys(TERMS, (JudgementStatus.ERROR, None, None))
    assert "RuntimeError" in found["e2e"].reason


def test_the_expert_is_asked_where_the_episode_does_not_say_how_many_steps_it_needs(solved: Episode) -> None:
    unknown = dataclasses.replace(solved, expert_steps=None)
    assert judge_episode(unknown, ["e2e"]) == judge_episode(solved, ["e2e"])


def test_without_an_expert_its_own_useful_actions_are_the_measure() -> None:
    neat = play(Scripted(["down"] * 12), "Test/Hopeless-v0", "hopeless/test/0001")
    assert neat.expert_steps is None
    assert judge_episode(neat, ["e2e"])["e2e"].score == 2
    messy = play(Scripted(["up"] * 3 + ["down"] * 12), "Test/Hopeless-v0", "hopeless/test/0001")
    assert judge_episode(messy, ["e2e"])["e2e"].score == 1


def test_one_bad_response_costs_the_format(solved: Episode) -> None:
    assert judge_episode(solved, ["format"])["format"].value == 1
    turns = list(solved.turns)
    turns[1] = dataclasses.replace(turns[1], well_formed=False)
    found = judge_episode(dataclasses.replace(solved, turns=tuple(turns)), ["format"])["format"]
    assert (found.score, found.value) == (0, 0) and "turn 2" in found.reason


@pytest.mark.parametrize(("env", "step", "command", "score"), [
    ("maze", "Move down to 5, 3.", "move down", 2),
    ("maze", "Go down.", "move down", 2),
    ("maze", "Move down to 5, 3.", "move left", 0),
    ("maze", "Move left or down.", "move left", 1),
    ("maze", "Move left, move down, move up and move right.", "move down", 1),
    ("maze", "Move left, down, up.", "move left", 1),
    ("maze", "Do not move left.", "move left", 0),
    ("iqa", "turn left to look where nothing was seen yet", "turn left", 2),
    ("iqa", "turn left to look where nothing was seen yet", "turn right", 0),
    ("iqa", "open the fridge 1 to look inside", "open fridge 1", 2),
    ("iqa", "open fridge 1", "open cabinet 2", 1),
    ("iqa", "answer yes unless the search says otherwise", "answer no", 1),
    ("alfworld", "Put the mug 2 in or on the desk 1", "move mug 2 to desk 1", 2),
    ("alfworld", "Turn on desklamp 1", "use desklamp 1", 2),
    ("alfworld", "Go to drawer 3 to put cellphone 2 there", "open drawer 3", 1),
    ("alfworld", "Go to drawer 3", "take mug 1 from desk 1", 0),
    ("textcraft", "Craft 4 oak planks from 1 oak logs.", "craft 4 oak planks using 1 oak logs", 2),
    ("textcraft", "Craft 1 bed using 3 wool, 3 planks", "craft 1 bed using 3 planks, 3 wool", 2),
    ("textcraft", "Get 2 oak logs", "get 1 oak logs", 1),
    ("textcraft", "Get 1 coal and get 1 stick", "get 1 coal", 1),
    ("textcraft", "Get 2 oak logs", "inventory", 0),
    ("babyai", "Turn left, to the red ball.", "turn left", 2),
    ("babyai", "Pick up red ball 1.", "go to red ball 1", 1),
    ("babyai", "Toggle and go through purple door 1.", "toggle and go through purple door 1", 2),
    ("wordle", "Guess raise to split the 2300 words that fit.", "raise", 2),
    ("wordle", "Guess raise to split the 2300 words that fit.", "crane", 0),
    ("wordle", "CRANE", "crane", 2),
    ("wordle", "Try crane or guess slate", "slate", 1),
    ("wordle", "Guess a word that fits all marks so far.", "crane", 1),
])  # fmt: skip
def test_adherence_of_a_command_to_a_step(env: str, step: str, command: str, score: int) -> None:
    assert adherence(env, step, command)[0] == score


def test_adherence_is_a_mean_over_actions_and_says_where_it_was_worst() -> None:
    def swap(steps: list[str], rng: Any) -> list[str]:
        return ["Move nowhere." if rng.random() < 0.5 else steps[0], *steps[1:]]

    episode = play(ExpertPlanner(swap), MAZE, "maze/test/0001")
    found = judge_episode(episode, ["adherence"])["adherence"]
    wrong = [number for number, turn in enumerate(episode.turns, 1) if turn.plan[turn.plan_step - 1] == "Move nowhere."]
    assert 0 < len(wrong) < episode.steps
    assert [int(number) for number, score in found.parts.items() if score == 0] == wrong
    assert found.value == pytest.approx(1 - len(wrong) / episode.steps)
    assert f"turn {wrong[0]}" in found.reason


def test_an_action_for_which_the_plan_has_no_step_is_not_in_line_with_it() -> None:
    episode = play(ExpertPlanner(lambda steps, rng: []), MAZE, "maze/test/0001")
    assert judge_episode(episode, ["adherence"])["adherence"].score == 0
    assert judge_episode(episode, ["plan_quality"])["plan_quality"].score == 3


def test_without_a_plan_of_steps_there_is_nothing_to_adhere_to() -> None:
    for agent in ("expert", Scripted(["move up"] * 5, Plan(("Find the goal.",)))):
        found = judge_episode(play(agent, MAZE, "maze/test/0001"), ["adherence", "plan_quality"])
        assert {each.status for each in found.values()} == {JudgementStatus.NOT_APPLICABLE}


def marks(env_id: str, task_id: str, spoil: Any) -> dict[str, float]:
    env: Any = gymnasium.make(env_id).unwrapped
    env.reset(seed=0, options={"task_id": task_id})
    found = judge_plan(env, spoil(env.expert.plan()))
    env.close()
    return {"correctness": found.correctness, "executability": found.executability, "total": found.total}


@pytest.mark.parametrize(("env_id", "task_id"), [(MAZE, "maze/test/0001"), (TEXTCRAFT, "textcraft/test/0000")])
def test_the_more_is_broken_off_a_plan_the_less_correct_it_is(env_id: str, task_id: str) -> None:
    size = 7
    found = [marks(env_id, task_id, lambda steps, k=kept: steps[:k]) for kept in range(size, -1, -1)]
    correctness = [each["correctness"] for each in found]
    assert correctness == sorted(correctness, reverse=True)
    assert correctness[0] > 2 and correctness[-1] == 1


@pytest.mark.parametrize(("env_id", "task_id"), [(MAZE, "maze/test/0001"), (TEXTCRAFT, "textcraft/test/0000")])
def test_the_more_steps_are_nonsense_the_less_can_be_executed(env_id: str, task_id: str) -> None:
    def nonsense(steps: list[str], count: int) -> list[str]:
        return steps[: len(steps) - count] + ["Contemplate the situation."] * count

    totals = [marks(env_id, task_id, lambda steps, k=count: nonsense(steps, k))["total"] for count in range(5)]
    assert totals[0] == 15 and all(after < before for before, after in pairwise(totals))


def test_a_plan_that_is_no_list_loses_half_of_its_standardisation() -> None:
    env: Any = gymnasium.make(MAZE).unwrapped
    env.reset(seed=0, options={"task_id": "maze/test/0001"})
    steps = env.expert.plan()
    listed = Plan(tuple(steps)).lines()
    assert judge_plan(env, steps, listed).standardisation == 5
    assert judge_plan(env, steps, f"Sure! Here is the plan:\n{listed}").standardisation == 3
    assert judge_plan(env, [f"{step} Or move up instead." for step in steps]).standardisation == 1


def test_judging_a_plan_leaves_the_episode_as_it_was() -> None:
    env: Any = gymnasium.make(TEXTCRAFT).unwrapped
    env.reset(seed=0, options={"task_id": "textcraft/test/0000"})
    env.step(env.expert.action())
    before = env.snapshot()
    judge_plan(env, env.expert.plan())
    assert env.snapshot() == before


def test_steps_are_read_as_the_environment_understands_them() -> None:
    def read(env_id: str, task_id: str, step: str) -> list[str]:
        env: Any = gymnasium.make(env_id).unwrapped
        env.reset(seed=0, options={"task_id": task_id})
        return commands(env, step)

    assert read(MAZE, "maze/agentgym/0018", "3. Go down to the goal.")[0] == "move down"
    assert "get 3 coal" in read(TEXTCRAFT, "textcraft/goal/torch", "Collect 3 coal.")
    wordle = ("AdaPlan/Wordle-v0", "wordle/test/0000")
    assert read(*wordle, "Guess crane first") == ["crane"]
    (open_guess,) = read(*wordle, "Guess a word that fits.")
    assert len(open_guess) == 5 and read(*wordle, "Guess a word that fits.") == [open_guess]
    assert read(*wordle, "Think hard.") == []


def test_every_revision_is_judged_where_it_was_made() -> None:
    """A planner that sees only the first half ahead, and then the rest, has two plans: one falls short, one arrives."""
    state = {"turn": 0}

    def half(steps: list[str], rng: Any) -> list[str]:
        state["turn"] += 1
        return steps[: len(steps) // 2] if state["turn"] == 1 else steps

    episode = play(ExpertPlanner(half), MAZE, "maze/test/0001")
    found = judge_episode(episode, ["plan_quality"])["plan_quality"]
    assert "1 of 2 plans" in found.reason
    assert found.score == sum(found.parts.values()) and 3 < found.parts["correctness"] < 5


def test_an_episode_that_can_not_be_played_again_is_no_zero(solved: Episode) -> None:
    turns = list(solved.turns)
    turns[0] = dataclasses.replace(turns[0], score=0.123)
    turns[1] = dataclasses.replace(turns[1], plan=("Move up.", "Move up."), plan_step=2)
    found = judge_episode(dataclasses.replace(solved, turns=tuple(turns)), ["plan_quality"])["plan_quality"]
    assert found.status is JudgementStatus.ERROR and "settings" in found.reason


def test_many_episodes_are_judged_in_order(solved: Episode) -> None:
    lost = play("random", MAZE, "maze/test/0001", max_steps=3)
    found = asyncio.run(judge_episodes([solved, lost, solved], ["e2e"]))
    assert [each["e2e"].score for each in found] == [2, 0, 2]


def test_wrong_names_and_numbers_are_refused(solved: Episode) -> None:
    with pytest.raises(UnknownNameError, match="adherence"):
        judge_episode(solved, ["adherance"])
    with pytest.raises(UnknownNameError, match="rules"):
        judge_episode(solved, ["e2e"], "rule")
    with pytest.raises(ConfigError, match="slack"):
        RulesJudge(slack=-1)


class Scripted(Agent):
    """Plays a list of actions, with a plan that stays as it is."""

    name = "scripted"

    def __init__(self, actions: list[str], plan: Plan | None = None) -> None:
        self.actions, self.plan = actions, plan

    def start(self, briefing: Briefing) -> Session:
        agent, left = self, iter(self.actions * 50)

        class Playing(Session):
            async def act(self, observation: str) -> Decision:
                action = next(left)
                return Decision(action, plan=agent.plan, raw=f"Action: {action}")

        return Playing()
