"""Every agent, on a corridor, with a scripted model."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from adaplan_agents import Agent, Briefing, ScriptedModel, agent_names, load_model, make_agent
from adaplan_envs.errors import ConfigError, ModelError, UnknownNameError

RIGHT = ScriptedModel(lambda messages: "Thought: it is to the right\nAction: right")


def test_expert_and_random_ask_no_model(play):
    decisions, info, _ = play(make_agent("expert"))
    assert info["success"] and [d.action for d in decisions] == ["right"] * 3
    first = [d.action for d in play(make_agent("random"), seed=5)[0]]
    assert first == [d.action for d in play(make_agent("random"), seed=5)[0]]
    assert len({tuple(d.action for d in play(make_agent("random"), seed=s)[0]) for s in range(6)}) > 1


def test_react_tells_rules_and_goal_and_reads_thought_and_action(play):
    decisions, info, session = play(make_agent("react", RIGHT))
    assert info["success"] and len(decisions) == 3
    assert decisions[0].thought == "it is to the right" and decisions[0].well_formed
    messages = session.conversations["executor"].messages
    assert "Commands: left, right" in messages[0]["content"] and "reach cell 3" in messages[0]["content"]
    assert messages[1]["content"] == "<observation>\nYou are in cell 0.\n</observation>"
    assert [m["role"] for m in messages] == ["system"] + ["user", "assistant"] * 3
    assert decisions[0].usage.requests == 1 and decisions[0].trace[0]["role"] == "executor"


def test_a_naive_agent_answers_with_commands_alone(play):
    decisions, info, _ = play(
        make_agent("naive", ScriptedModel(["Action: right", "right", "Right it is.\nAction: right"]))
    )
    assert info["success"] and [d.well_formed for d in decisions] == [True, False, False]


def test_a_brief_agent_is_told_the_goal_and_what_it_observes_and_nothing_else(play):
    _, info, session = play(make_agent("brief", ScriptedModel(["Action: right"] * 3)))
    assert info["success"]
    first, second = session.conversations["executor"].messages[:2]
    assert (first["content"], second["content"]) == ("reach cell 3", "You are in cell 0.")


def test_what_is_admitted_is_asked_of_the_environment_at_every_turn(play, monkeypatch):
    agent = make_agent("brief", ScriptedModel(lambda messages: "Action: right"), admissible=True)
    _, _, session = play(agent)
    env = session.briefing.env.unwrapped
    assert session.sampling().choices == tuple(f"Action: {each}" for each in env.admissible_actions())
    monkeypatch.setattr(env, "spelled", True)
    monkeypatch.setattr(env, "admissible_actions", lambda: ["up"])
    assert session.sampling().choices == ("Action: up", "Action: u p")
    for none in (None, []):
        monkeypatch.setattr(env, "admissible_actions", lambda none=none: none)
        assert session.sampling().choices is None
    assert make_agent("brief", RIGHT).start(session.briefing).sampling().choices is None


def test_a_command_is_not_repeated_where_it_led_back_while_there_is_another(play):
    answers = ["Action: left", "Action: right", "Action: right", "Action: left"]
    agent = make_agent("brief", ScriptedModel(answers), admissible=True, no_repeat=True)
    session = agent.start(play(make_agent("react", RIGHT))[2].briefing)

    def choices_after(observation: str) -> tuple[str, ...] | None:
        asyncio.run(session.act(observation))
        return session.sampling().choices

    assert choices_after("A wall.") == ("Action: right",)
    assert choices_after("A door.") == ("Action: left",)
    assert choices_after("A wall.") == ("Action: left", "Action: right")
    assert agent.describe()["no_repeat"]
    with pytest.raises(ConfigError, match="set admissible"):
        make_agent("brief", RIGHT, no_repeat=True)


def test_a_word_that_is_spelled_is_not_repeated_either(play, monkeypatch):
    session = make_agent("brief", ScriptedModel(["Action: u p"]), admissible=True, no_repeat=True).start(
        play(make_agent("react", RIGHT))[2].briefing
    )
    env = session.briefing.env.unwrapped
    monkeypatch.setattr(env, "spelled", True)
    monkeypatch.setattr(env, "admissible_actions", lambda: ["up", "at"])
    asyncio.run(session.act("Guess."))
    assert session.sampling().choices == ("Action: at", "Action: a t")


def test_random_need_not_repeat_itself(play):
    decisions, info, _ = play(make_agent("random", no_repeat=True), seed=5)
    cells = [0]
    for decision in decisions:
        cells.append(max(0, cells[-1] + (1 if decision.action == "right" else -1)))
    tried = list(zip(cells[:4], [d.action for d in decisions[:4]], strict=False))
    assert info["success"] and len(set(tried)) == len(tried)


def test_mpo_plans_once_and_shows_the_plan_to_the_executor(play):
    planner = ScriptedModel(["1. find the cell\n2. go there"])
    decisions, info, session = play(make_agent("mpo", RIGHT, planner=planner))
    assert info["success"] and decisions[0].usage.requests == 2 and decisions[1].usage.requests == 1
    assert all(d.plan is decisions[0].plan for d in decisions)
    assert "2. go there" in session.conversations["executor"].messages[0]["content"]


async def _async_right(observation: str) -> str:
    return "right"


def _with_briefing(observation: str, briefing: Briefing) -> str:
    return "right" if briefing.goal == "reach cell 3" else "left"


@pytest.mark.parametrize("function", [lambda observation: "right", _async_right, _with_briefing])
def test_a_plain_or_async_function_is_an_agent(play, function):
    _, info, _ = play(make_agent(function))
    assert info["success"]


def test_an_agent_of_the_users_is_found_by_module_and_attribute(play, tmp_path: Path, monkeypatch):
    (tmp_path / "my_agents.py").write_text("def go(observation):\n    return 'right'\n")
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    agent = make_agent("my_agents:go")
    assert sys.path == path and agent.name == "my_agents:go"
    assert play(agent)[1]["success"]
    with pytest.raises(ConfigError, match="goo"):
        make_agent("my_agents:goo")
    with pytest.raises(ConfigError, match="no module 'their_agents'"):
        make_agent("their_agents:go")


def test_wrong_names_and_settings_are_answered_with_the_nearest(play):
    with pytest.raises(UnknownNameError, match="did you mean 'react'"):
        make_agent("reakt")
    with pytest.raises(UnknownNameError, match="did you mean 'replan'"):
        make_agent("adaplan", RIGHT, replann=3)
    with pytest.raises(UnknownNameError, match="did you mean 'smollm2'"):
        make_agent("react", "smolm2")
    with pytest.raises(ConfigError, match="needs a model"):
        make_agent("react")
    with pytest.raises(ConfigError, match="asks no model"):
        make_agent("random", RIGHT)
    with pytest.raises(ConfigError, match="takes no model, no replan"):
        make_agent(lambda observation: "x", RIGHT, replan=1)
    with pytest.raises(ConfigError, match="temperature is -1"):
        make_agent("react", RIGHT, temperature=-1)
    with pytest.raises(ConfigError, match="can be an agent"):
        make_agent(lambda: "x")


def test_sampling_fields_can_be_given_as_settings():
    agent = make_agent("react", RIGHT, temperature=0.5, max_tokens=9)
    assert agent.describe()["sampling"] == {"temperature": 0.5, "top_p": 1.0, "top_k": 0, "max_tokens": 9}
    assert {"adaplan", "react", "naive", "brief", "mpo", "random", "expert"} <= set(agent_names())
    assert make_agent(agent) is agent and isinstance(agent, Agent)


def test_a_script_that_is_too_short_is_a_model_error(play):
    with pytest.raises(ModelError, match="has 1 replies"):
        play(make_agent("react", ScriptedModel(["Action: left"])))


def _answer(messages):
    return "Action: right"


def test_a_scripted_model_can_be_named_on_the_command_line(play, tmp_path: Path, monkeypatch):
    (tmp_path / "my_script.py").write_text("REPLIES = ['Action: right'] * 3\n")
    monkeypatch.chdir(tmp_path)
    assert play(make_agent("react", "scripted:my_script:REPLIES"))[1]["success"]
    assert load_model("scripted", replies=_answer).describe() == {"name": "scripted"}
    with pytest.raises(ConfigError, match="needs replies"):
        load_model("scripted")
    with pytest.raises(ConfigError, match="needs a list of replies"):
        load_model("scripted", replies="Action: right")
    with pytest.raises(ConfigError, match="loaded already"):
        load_model(RIGHT, temperature=1)
