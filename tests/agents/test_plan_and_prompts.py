"""Eq. 1, and prompts as files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaplan_agents import Plan, ScriptedModel, make_agent, parse_plan
from adaplan_agents.prompting import Prompts
from adaplan_envs.errors import ConfigError, UnknownNameError

STEPS = st.lists(st.sampled_from(["go", "look", "take it"]), max_size=6)


@given(STEPS, STEPS, st.integers(0, 6))
def test_a_revision_keeps_steps_up_to_t_and_replaces_the_later_ones(steps, proposed, t):
    plan = Plan(tuple(steps))
    if t > len(steps):
        with pytest.raises(ValueError, match="steps 1 to"):
            plan.revise(t, proposed)
        return
    revised = plan.revise(t, proposed)
    assert revised.steps[:t] == plan.steps[:t] and revised.steps[t:] == tuple(proposed)
    assert revised.done == t and plan.steps == tuple(steps)
    assert revised.revise(t, proposed) == revised


def test_a_plan_advances_to_its_end_and_no_further():
    plan = Plan(("a", "b"))
    assert plan.current == "a" and plan.advance().current == "b"
    end = plan.advance().advance()
    assert end.current is None and end.advance() == end and end.remaining == ()


@given(STEPS.filter(bool), st.integers(1, 6))
def test_a_printed_plan_is_read_back(steps, start):
    plan = Plan(tuple(steps))
    text = parse_plan(plan.lines(start))
    assert text.steps == plan.steps[start - 1 :]
    assert not text.steps or (text.first, text.strict) == (start, True)


def test_values_are_put_in_as_they_are():
    prompts = Prompts("react")
    assert "{{goal}} {x}" in prompts.render("system", rules="{{goal}} {x}", goal="g")
    before, after = prompts.around("observe", "observation")
    assert (before, after) == ("<observation>\n", "\n</observation>")


def test_a_users_folder_replaces_prompts_and_the_record_says_so(tmp_path: Path, play):
    (tmp_path / "observe.md").write_text("You see: {{observation}}\n")
    agent = make_agent("react", ScriptedModel(lambda messages: "Action: right"), prompts=tmp_path)
    _, _, session = play(agent)
    assert session.conversations["executor"].messages[1]["content"] == "You see: You are in cell 0."
    assert agent.describe()["prompts"] == {"observe": "You see: {{observation}}"}


@pytest.mark.parametrize("kind", ["adaplan", "mpo", "naive", "react"])
def test_every_agent_has_brief_prompts_which_tell_no_rules(kind: str, play):
    brief = Prompts(kind, "brief")
    assert brief.replaced and not any("{{rules}}" in text for text in brief.texts.values())
    assert all(len(brief.texts[name]) < len(Prompts(kind).texts[name]) for name in brief.replaced)
    model = ScriptedModel(lambda messages: "1. go right\nThought: so\nAction: right")
    _, info, session = play(make_agent(kind, model, prompts="brief"))
    assert info["success"]
    assert "Commands:" not in str([talk.messages for talk in session.conversations.values()])


def test_a_wrong_prompt_folder_file_or_placeholder_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match="is no folder"):
        Prompts("react", tmp_path / "nowhere")
    (tmp_path / "observe.md").write_text("{{obsrvation}}")
    with pytest.raises(UnknownNameError, match="did you mean 'observation'"):
        Prompts("react", tmp_path)
    (tmp_path / "observe.md").unlink()
    (tmp_path / "sytem.md").write_text("x")
    with pytest.raises(UnknownNameError, match="did you mean 'system'"):
        Prompts("react", tmp_path)
