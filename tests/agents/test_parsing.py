"""What the parser takes, and what it lets pass as strict."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaplan_agents.parsing import parse_plan, parse_response


@pytest.mark.parametrize(
    ("text", "action", "thought"),
    [
        ("Action: look", "look", None),
        ("Thought: hm\nAction: look", "look", "hm"),
        ("Thought: hm Action: look", "look", "hm"),
        ("\n Thought: two\nlines\nAction:   go  to desk 1 \n", "go  to desk 1", "two\nlines"),
        ("Action:\nlook", "look", None),
    ],
)
def test_the_strict_format_is_thought_and_action_or_action_alone(text, action, thought):
    response = parse_response(text)
    assert (response.action, response.thought, response.strict) == (action, thought, True)


@pytest.mark.parametrize(
    ("text", "action", "thought", "problem"),
    [
        ("look", "look", None, "does not begin"),
        ("`look`", "look", None, "does not begin"),
        ("action: look", "look", None, "does not begin"),
        ("**Thought:** hm\n**Action:** look", "look", "hm", "does not begin"),
        ("### Action 1: [look]", "look", None, "does not begin"),
        ("Action: `look`\n", "look", None, ""),
        ("Action:\n```text\nlook\n```", "look", None, "goes on"),
        ("Action: ```look```", "look", None, ""),
        ('Action: "look"', "look", None, ""),
        ("I see. Action: look", "look", "I see.", "does not begin"),
        ("Sure!\nAction: look", "look", "Sure!", "does not begin"),
        ("Thought: a\nAction: look\nObservation: x\nAction: go", "look", "a", "more than one 'Action:'"),
        ("Action: look\nThen I go.", "look", None, "goes on after"),
        ("Action: look\nThought: done", "look", None, "after the action"),
        ("Thought: a\nThought: b\nAction: look", "look", "a\nThought: b", "more than one 'Thought:'"),
        ("Thought:\nAction: look", "look", None, "empty thought"),
        ("Thought: hm\nAction:", "", "hm", "empty action"),
        ("Action:\nThought: what now", "", None, "after the action"),
        ("Thought: only", "", "only", "no 'Action:'"),
        ("some\nrambling", "", "some\nrambling", "does not begin"),
        ("<think>Action: go\n</think>\nAction: look", "look", None, "does not begin"),
        ("Thought: aAction: look", "", "aAction: look", "no blank"),
        ("", "", None, "does not begin"),
    ],
)
def test_the_forgiving_reading_finds_what_was_meant_and_says_what_is_wrong(text, action, thought, problem):
    response = parse_response(text)
    assert (response.action, response.thought) == (action, thought)
    assert problem in response.problem and bool(problem) == (not response.strict)


TEXTS = st.text() | st.lists(
    st.sampled_from(
        [
            "Thought:",
            "Action:",
            "action:",
            " ",
            "\n",
            "look",
            "1. ",
            "2) ",
            "Plan:",
            "- ",
            "**",
            "```",
            "<think>",
            "</think>",
        ]
    )
).map("".join)


@given(TEXTS)
def test_any_text_is_read_and_a_strict_one_is_read_in_full(text):
    response = parse_response(text)
    assert "\n" not in response.action
    if response.strict:
        assert response.action
        assert parse_response(response.action if "ction" not in response.action else "Action: x").action


@given(st.text(min_size=1), st.text(min_size=1))
def test_what_is_written_in_the_format_comes_back(thought, action):
    thought, action = " ".join(thought.split()), " ".join(action.split())
    words = ("thought", "action", "think>")
    if not thought or not action or any(word in (thought + action).lower() for word in words):
        return
    if action[0] in "`\"'[<*“" or len(action.splitlines()) > 1 or len(thought.splitlines()) > 1:
        return
    response = parse_response(f"Thought: {thought}\nAction: {action}")
    assert (response.thought, response.action, response.strict) == (thought, action, True)


@given(TEXTS)
def test_any_text_is_read_as_a_plan(text):
    plan = parse_plan(text)
    assert all(step and "\n" not in step for step in plan.steps)
    assert not plan.strict or plan.steps
    assert all(len(plan.after(t)) <= len(plan.steps) for t in range(4))


@pytest.mark.parametrize(
    ("text", "first", "steps", "strict"),
    [
        ("1. a\n2. b", 1, ("a", "b"), True),
        ("Plan:\n3. a\n4. b\n", 3, ("a", "b"), True),
        ("1) a\n2) b", 1, ("a", "b"), False),
        ("Step 1: go **up**\nStep 2: down", 1, ("go up", "down"), False),
        ("Here it is:\n\n1. a\n2. b\n\nGood luck!", 1, ("a", "b"), False),
        ("- a\n- b", 1, ("a", "b"), False),
        ("1. a\n3. b", 1, ("a", "b"), False),
        ("1. a\n2. b\n1. c", 1, ("a", "b"), False),
        ("0. a", 1, ("a",), False),
        ("no plan", 1, (), False),
        ("1. </think>", 1, (), False),
        ("", 1, (), False),
    ],
)
def test_plans_are_numbered_lists(text, first, steps, strict):
    plan = parse_plan(text)
    assert (plan.first, plan.steps, plan.strict) == (first, steps, strict)


def test_a_proposal_is_taken_by_its_numbers_where_they_make_sense():
    whole, rest = parse_plan("1. a\n2. b\n3. c"), parse_plan("3. c\n4. d")
    assert whole.after(0) == ("a", "b", "c") and whole.after(2) == ("c",)
    assert rest.after(2) == ("c", "d") and rest.after(3) == ("d",)
    assert rest.after(0) == ("c", "d")  # begins too late: its numbers are wrong
    assert parse_plan("1. a\n2. b").after(5) == ("a", "b")  # began anew


@pytest.mark.parametrize(
    "text", ["Action:" * 20_000, "\n" * 100_000, "**" * 50_000, " 1. x\n" * 20_000, "Thought: " * 12_000]
)
def test_a_huge_answer_is_read_in_linear_time(text):
    def seconds(text: str) -> float:
        start = time.perf_counter()
        parse_response(text)
        parse_plan(text)
        return time.perf_counter() - start

    # A quadratic reading of these takes minutes; the bound is generous for a busy machine.
    assert seconds(text) < 20
