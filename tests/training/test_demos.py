"""Demonstrations: what the agent would have said, with what the expert says."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from adaplan_agents import ScriptedModel, parse_plan, parse_response
from adaplan_agents.models import Model
from adaplan_envs.core import TextEnv
from adaplan_envs.errors import ConfigError, ModelError, UnknownNameError
from adaplan_evaluation import evaluate
from adaplan_training.commands_data import DEMOS, parse_tasks
from adaplan_training.demos import DemoConfig, demonstrate
from adaplan_training.replay import replay_run
from adaplan_training.transcripts import Transcript, read_transcripts, write_transcripts


def collect(
    config: DemoConfig, model: Model | None = None, concurrency: int = 16, learner: Model | None = None
) -> list[Transcript]:
    async def run() -> list[Transcript]:
        return [each async for each in demonstrate(config, model, concurrency, learner=learner)]

    return asyncio.run(run())


def answers(transcript: Transcript, provenance: str) -> list[str]:
    return [
        message["content"]
        for message in transcript.messages
        if message["role"] == "assistant" and message["provenance"] == provenance
    ]


MAZE = DemoConfig("adaplan", envs="maze", tasks=4)
NOISY = DemoConfig("adaplan", envs="maze,textcraft", tasks=5, noise=0.4)


def test_a_demonstration_plays_its_task_to_success_in_the_strict_format() -> None:
    for each in collect(DemoConfig("adaplan", envs="maze,textcraft", tasks=2)):
        env = gymnasium.make(each.about["env_id"])
        env.reset(options={"task_id": each.about["task_id"]})
        success = False
        for text in answers(each, "executor"):
            response = parse_response(text)
            assert response.strict
            *_, info = env.step(response.action)
            success = info["success"]
        assert success
        assert each.about["steps"] == len(answers(each, "executor"))


def test_the_planner_lists_the_steps_that_are_still_to_come_by_their_numbers() -> None:
    (each,) = collect(DemoConfig("adaplan", envs="maze", tasks=1))
    plans = [parse_plan(text) for text in answers(each, "planner")]
    assert [plan.first for plan in plans] == list(range(1, len(plans) + 1))
    assert all(plan.strict for plan in plans)
    assert all(later.steps == plan.steps[1:] for plan, later in pairwise(plans))
    assert len(plans) == each.about["steps"]


def test_slips_are_shown_and_not_trained() -> None:
    found = collect(NOISY)
    slips = sum(len(answers(each, "given")) for each in found)
    turns = sum(len(answers(each, "executor")) for each in found) + slips
    assert 0.2 < slips / turns < 0.5
    for each in found:
        env = gymnasium.make(each.about["env_id"]).unwrapped
        assert isinstance(env, TextEnv)
        env.reset(options={"task_id": each.about["task_id"]})
        for message in each.messages:
            if message["role"] == "assistant" and message["provenance"] != "planner":
                action = parse_response(message["content"]).action
                assert (action == env.expert.action()) == (message["provenance"] == "executor")
                *_, info = env.step(action)
        assert info["success"]


def test_slips_of_a_clumsy_teacher_are_trained() -> None:
    clumsy = collect(replace(NOISY, train_slips=True))
    assert not any(answers(each, "given") for each in clumsy)
    said = [[message["content"] for message in each.messages] for each in clumsy]
    assert said == [[message["content"] for message in each.messages] for each in collect(NOISY)]


def test_a_learner_slips_in_its_own_way_and_the_teacher_goes_on_from_there() -> None:
    def speak(messages: list[dict[str, str]]) -> str:
        return "Action: move left" if "Walls" in messages[-1]["content"] else "Action: move up"

    config = DemoConfig("naive", envs="maze", tasks=5, noise=0.4)
    found = collect(config, learner=ScriptedModel(speak))
    assert {text for each in found for text in answers(each, "given")} == {"Action: move left"}
    for each in found:
        env = gymnasium.make(each.about["env_id"]).unwrapped
        assert isinstance(env, TextEnv)
        env.reset(options={"task_id": each.about["task_id"]})
        for message in each.messages:
            if message["role"] == "assistant":
                action = parse_response(message["content"]).action
                assert message["provenance"] == "given" or action == env.expert.action()
                env.step(action)
    assert found == collect(config, concurrency=1, learner=ScriptedModel(speak))


@pytest.mark.parametrize("settings", [{}, {"noise": 0.2, "train_slips": True}])
def test_a_learner_without_slips_or_with_slips_to_imitate_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="a learner's commands are the noise"):
        collect(DemoConfig("naive", envs="maze", tasks=1, **settings), learner=ScriptedModel(["Action: move up"]))


def test_things_swap_names_and_nothing_else_changes() -> None:
    config = DemoConfig("brief", envs="textcraft", tasks=20, teacher="observer")
    plain, swapped = collect(config), collect(replace(config, rename=1.0))
    for before, after in zip(plain, swapped, strict=True):
        assert after.about == {**before.about, "renamed": True}
        pairs = set()
        for one, other in zip(before.messages, after.messages, strict=True):
            assert one["provenance"] == other["provenance"]
            pairs |= set(zip(re.findall(r"\w+", one["content"]), re.findall(r"\w+", other["content"]), strict=True))
        assert len(pairs) == len({old for old, _ in pairs}) == len({new for _, new in pairs})
        assert {old for old, _ in pairs} == {new for _, new in pairs}
        assert all(old == new for old, new in pairs if old in ("craft", "Got", "using", "can") or old.isdigit())
    changed = sum(one.messages != other.messages for one, other in zip(plain, swapped, strict=True))
    assert changed > 15
    half = collect(replace(config, rename=0.5))
    assert 2 < sum("renamed" in each.about for each in half) < 18
    assert all(each in swapped or each in plain for each in half)


def test_names_are_swapped_where_things_have_names() -> None:
    with pytest.raises(ConfigError, match="maze has no names to exchange; rename is for alfworld and textcraft"):
        collect(DemoConfig("naive", envs="maze", rename=0.5))


def test_only_tasks_that_are_easy_enough_are_shown() -> None:
    assert {each.about["steps"] for each in collect(DemoConfig("naive", envs="maze", max_difficulty=5))} == {4, 5}


def test_equal_settings_give_equal_files_at_any_concurrency() -> None:
    one, other = collect(NOISY, concurrency=1), collect(NOISY, concurrency=7)
    assert [each.to_json() for each in one] == [each.to_json() for each in other]
    assert one != collect(DemoConfig("adaplan", envs="maze,textcraft", tasks=5, noise=0.4, seed=1))


@pytest.mark.parametrize(
    ("agent", "settings", "conversations"),
    [
        ("react", {}, ["executor"]),
        ("naive", {}, ["executor"]),
        ("brief", {}, ["executor"]),
        ("mpo", {}, ["executor", "planner"]),
        ("adaplan", {"replan": "deviation"}, ["executor"]),
    ],
)
def test_every_agent_that_asks_a_model_can_be_shown(agent: str, settings: Any, conversations: list[str]) -> None:
    found = collect(DemoConfig(agent, settings, envs="maze", tasks=1))
    assert [each.about["conversation"] for each in found] == conversations
    texts = answers(found[0], "executor")
    assert all(text.startswith("Action: " if agent in ("naive", "brief") else "Thought: ") for text in texts)


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_recorded_run_gives_the_conversations_that_it_held(tmp_path: Path) -> None:
    shown = collect(MAZE)
    said = {each.about["task_id"]: answers(each, "executor") for each in shown}
    plans = {each.about["task_id"]: answers(each, "planner") for each in shown}

    def speak(messages: list[dict[str, str]]) -> str:
        text = "".join(message["content"] for message in messages)
        task = next(each for each in shown if each.messages[2]["content"] in text)  # its first observation
        turn = sum(message["role"] == "assistant" for message in messages)
        return (plans if turn % 2 == 0 else said)[task.about["task_id"]][turn // 2]

    run = evaluate(
        "adaplan", "maze", model=ScriptedModel(speak), split="train", episodes=4, out=tmp_path / "run", seed=3
    )
    assert all(episode.success for episode in run.episodes)
    again = list(replay_run(tmp_path / "run"))
    assert [each.messages for each in again] == [each.messages for each in shown]
    assert again[0].about["model"] == "scripted"


def test_episodes_that_failed_are_left_out_of_a_run(tmp_path: Path) -> None:
    model = ScriptedModel(lambda messages: "Action: move up")
    evaluate("react", "maze", model=model, episodes=3, max_steps=3, out=tmp_path / "run")
    assert list(replay_run(tmp_path / "run")) == []


def test_a_run_that_goes_another_way_now_is_refused(tmp_path: Path) -> None:
    def speak(messages: list[dict[str, str]]) -> str:
        return "Action: crane"

    run = evaluate("react", "wordle", model=ScriptedModel(speak), tasks=["wordle/test/0000"], out=tmp_path / "run")
    path = tmp_path / "run" / "episodes.jsonl"
    (record,) = lines(path)
    record["success"] = True
    record["turns"][1]["observation"] = "Something else."
    path.write_text(json.dumps(record) + "\n")
    assert run.path is not None
    with pytest.raises(ConfigError, match="wordle/test/0000, repeat 0: turn 2 brings another observation"):
        list(replay_run(run.path))


def test_agents_that_ask_no_model_cannot_be_imitated(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="adaplan"):
        DemoConfig("expert")
    evaluate("expert", "maze", episodes=1, out=tmp_path / "run")
    with pytest.raises(ConfigError, match="'expert' can't be imitated"):
        list(replay_run(tmp_path / "run"))


@pytest.mark.parametrize("wrong", [{"noise": 1.0}, {"noise": -0.1}, {"rename": 1.5}, {"tasks": 0}, {"repeats": 0}])
def test_numbers_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        DemoConfig(**wrong)


def test_of_a_model_the_successes_are_kept() -> None:
    def speak(messages: list[dict[str, str]]) -> str:
        return "Action: move down"

    config = DemoConfig("react", envs="maze", env_settings={"rules": "agentgym"}, split="agentgym")
    found = collect(config, ScriptedModel(speak))
    assert 0 < len(found) < 25
    assert all(set(answers(each, "executor")) == {"Action: move down"} for each in found)
    with pytest.raises(ConfigError, match="noise is for the expert"):
        collect(DemoConfig("react", envs="maze", noise=0.5), ScriptedModel(speak))


def test_the_command_writes_a_file_and_never_over_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import argparse

    def run(*words: str) -> int:
        parser = argparse.ArgumentParser()
        DEMOS.configure(parser)
        return DEMOS.run(parser.parse_args(words))

    out = tmp_path / "demos.jsonl"
    arguments = ("--env", "maze", "--tasks", "train:3", "--out", str(out))
    assert run(*arguments) == 0
    assert "3 conversations" in capsys.readouterr().out
    assert [record["env_id"] for record in lines(out)] == ["AdaPlan/Maze-v0"] * 3
    with pytest.raises(ConfigError, match="is there already"):
        run(*arguments)
    assert [path.name for path in tmp_path.iterdir()] == ["demos.jsonl"]


def test_tasks_are_a_split_and_perhaps_a_number() -> None:
    assert parse_tasks("train:500") == ("train", 500)
    assert parse_tasks("test") == ("test", None)
    with pytest.raises(ConfigError, match="SPLIT:NUMBER"):
        parse_tasks("train:all")


def test_a_file_survives_its_own_reading(tmp_path: Path) -> None:
    found = collect(NOISY)
    path = tmp_path / "new" / "demos.jsonl"
    assert write_transcripts(path, found) == len(found)
    assert list(read_transcripts(path)) == found


def test_an_error_while_writing_leaves_nothing_behind(tmp_path: Path) -> None:
    def broken() -> Any:
        yield from collect(MAZE)
        raise ModelError("gone")

    with pytest.raises(ModelError):
        write_transcripts(tmp_path / "demos.jsonl", broken())
    assert not any(tmp_path.iterdir())


def test_an_observer_demonstrates_what_was_seen_before() -> None:
    (each,) = collect(DemoConfig("brief", envs="wordle", tasks=1, teacher="observer"))
    assert each.about["model"] == "observer"
    assert [text.removeprefix("Action: ").count(" ") for text in answers(each, "executor")] == [4] * each.about["steps"]


def test_an_observer_has_no_plan_to_give() -> None:
    with pytest.raises(ConfigError, match="brief or naive"):
        DemoConfig("adaplan", teacher="observer")
    with pytest.raises(UnknownNameError, match="did you mean 'observer'"):
        DemoConfig("brief", teacher="observr")
