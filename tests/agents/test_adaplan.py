"""AdaPlan's semantics, by scripted models.

1. Unified: planner and executor speak in one conversation; isolated: in one each.
2. After t actions, steps 1..t of the plan never change (Eq. 1).
3. The plan is revised after every observation, after every k-th action, or on deviation; always where it is used up.
4. Of n candidates one is kept in the conversation, and the others leave no trace there.
5. A plan from elsewhere stands where the model's own would.
"""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from adaplan_agents import Plan, PlanRequest, ScriptedModel, make_agent
from adaplan_envs.errors import ConfigError, UnknownNameError

RIGHT = "Thought: as planned\nAction: right"
PLAN = "1. move right\n2. move right\n3. move right"


def script(plans, actions=RIGHT):
    """Return a model of both roles: plans (a list, or one for all) to the planner, actions to the executor."""
    plans, actions = (iter([x] * 99) if isinstance(x, str) else iter(x) for x in (plans, actions))

    def answer(messages):
        return next(plans) if "you are the planner" in messages[-1]["content"] else next(actions)

    return ScriptedModel(answer)


def roles(decisions):
    return [[call["role"] for call in decision.trace] for decision in decisions]


def test_one_model_plays_both_roles_in_one_conversation(play):
    decisions, info, session = play(
        make_agent("adaplan", script([PLAN, "2. move right\n3. move right", "3. move right"]))
    )
    assert info["success"] and list(session.conversations) == ["executor"]
    assert roles(decisions) == [["planner", "executor"]] * 3
    assert [d.plan.current for d in decisions] == ["move right"] * 3 and [d.plan.done for d in decisions] == [0, 1, 2]
    messages = session.conversations["executor"].messages
    assert [m["role"] for m in messages] == ["system"] + ["user", "assistant"] * 6
    assert messages[1]["content"].startswith(
        "<observation>\nYou are in cell 0.\n</observation>\n\nNow you are the planner."
    )
    assert "current step is 1. move right" in messages[3]["content"] and "<observation>" not in messages[3]["content"]
    assert all(d.usage.requests == 2 and d.well_formed and d.thought == "as planned" for d in decisions)


def test_two_models_have_a_conversation_each(play):
    planner = ScriptedModel([PLAN, "2. move right\n3. move right", "3. move right"])
    decisions, info, session = play(make_agent("adaplan", ScriptedModel(lambda m: RIGHT), planner=planner))
    assert info["success"] and roles(decisions) == [["planner", "executor"]] * 3
    told = [m["content"] for m in session.conversations["planner"].messages if m["role"] == "user"]
    assert told[1].startswith(
        "The agent's command: right\n<observation>\nYou are in cell 1.\n</observation>\n\nNow you are the planner."
    )
    told = [m["content"] for m in session.conversations["executor"].messages if m["role"] == "user"]
    assert "The plan from here on:\n2. move right\n3. move right\n\nNow you are the executor." in told[1]
    assert not any("you are the planner" in text for text in told)


def test_history_stays_whatever_the_planner_proposes(play):
    plans = [
        PLAN,
        "1. dance\n2. sing\n3. move right",
        "no list at all",
        "9. fly\n10. swim",
        "2. jump",
        *["5. stop"] * 9,
    ]
    decisions, _, _ = play(make_agent("adaplan", script(plans, "Action: left")), limit=6)
    steps = [decision.plan.steps for decision in decisions]
    assert steps[0] == ("move right",) * 3
    assert steps[1] == ("move right", "sing", "move right")  # by its numbers
    assert steps[2] == steps[1]  # unreadable: as it was
    assert steps[3] == ("move right", "sing", "move right", "fly", "swim")
    for t, (before, after) in enumerate(pairwise(steps), 1):
        assert after[:t] == before[:t]


def test_an_unreadable_first_plan_leaves_the_executor_without_a_step(play):
    decisions, info, session = play(make_agent("adaplan", script("I can't.")))
    assert info["success"] and decisions[0].plan == Plan()
    assert "No step of the plan is left" in session.conversations["executor"].messages[3]["content"]


def test_replanning_every_k_actions_and_where_the_plan_is_used_up(play):
    decisions, _, _ = play(
        make_agent("adaplan", script("1. move right\n2. b\n3. c\n4. d\n5. e", "Action: left"), replan=3), limit=8
    )
    assert [len(names) for names in roles(decisions)] == [2, 1, 1, 2, 1, 2, 1, 1]
    # After 3 actions the proposal holds steps 4 and 5, which are used up after 5; then five new ones follow.
    short, _, _ = play(make_agent("adaplan", script("1. move right"), replan=5))
    assert roles(short) == [["planner", "executor"]] * 3


def test_replanning_on_deviation(play):
    plan = "\n".join(f"{n}. move left" for n in range(1, 9))
    actions = ["Action: left", "Action: right", "Action: left", "Thought: hm", "Action: left", "Action: left"]
    decisions, _, _ = play(make_agent("adaplan", script(plan, actions), replan="deviation"), limit=6)
    # 1 first plan; 2 the same observation again (a bump); 3 "right" was no step; 4 as planned; 5 unreadable; 6 fine
    assert [len(names) for names in roles(decisions)] == [2, 2, 2, 1, 2, 1]


def test_one_of_n_candidates_is_kept_and_the_planner_chooses_it(play):
    seen = []

    def answer(messages):
        last = messages[-1]["content"]
        if "candidate plans" in last:
            seen.append(last)
            return "Plan 2 is best"
        if "you are the planner" in last:
            seen.append("plan")
            return f"1. move {['up', 'down', 'right'][(seen.count('plan') - 1) % 3]}"
        return RIGHT

    agent = make_agent("adaplan", ScriptedModel(answer), candidates=3, temperature=1)
    decisions, _, session = play(agent)
    assert decisions[0].plan.steps == ("move down",)
    assert (
        roles(decisions)[0] == ["candidate", "planner", "candidate", "selector", "executor"]
        and decisions[0].usage.requests == 5
    )
    assert "Plan 1:\n1. move up\n\nPlan 2:\n1. move down\n\nPlan 3:\n1. move right" in next(
        x for x in seen if "candidate" in x
    )
    texts = [m["content"] for m in session.conversations["executor"].messages]
    assert "1. move down" in texts and "1. move up" not in texts and not any("candidate" in text for text in texts)


def test_a_users_function_selects_and_equal_candidates_need_no_choice(play):
    requests: list[PlanRequest] = []

    async def last(request, plans):
        requests.append(request)
        return len(plans) - 1

    agent = make_agent("adaplan", script(["1. a", "1. b"] * 9), candidates=2, temperature=1, select=last)
    decisions, _, _ = play(agent)
    assert decisions[0].plan.steps == ("b",) and requests[1].actions == ("right",)
    assert requests[1].observation == "You are in cell 1."
    decisions, _, _ = play(make_agent("adaplan", script(PLAN), candidates=2, temperature=1))
    assert roles(decisions)[0] == ["planner", "candidate", "executor"]
    with pytest.raises(ConfigError, match="select returned 7"):
        play(make_agent("adaplan", script(PLAN), candidates=2, temperature=1, select=lambda request, plans: 7))


@pytest.mark.parametrize("source", ["expert", "model", "function"])
def test_a_plan_from_elsewhere_stands_where_the_models_own_would(play, source):
    steps = ["move right"] * 3
    sources = {
        "expert": "expert",
        "model": ScriptedModel([PLAN, "2. move right\n3. move right", "3. move right"]),
        "function": lambda request: steps[len(request.actions) :],
    }
    decisions, info, session = play(make_agent("adaplan", script("never asked"), plan_source=sources[source]))
    _, _, own = play(make_agent("adaplan", script([PLAN, "2. move right\n3. move right", "3. move right"])))
    assert info["success"] and [d.plan.steps for d in decisions] == [tuple(steps)] * 3
    assert session.conversations["executor"].messages == own.conversations["executor"].messages


def test_equal_seeds_give_equal_calls_and_every_call_has_its_own_seed(play):
    def seeds(seed):
        noted = []

        class Noting(ScriptedModel):
            def open(self, system=""):
                conversation = super().open(system)
                sample = conversation.sample

                async def noting(sampling, provenance):
                    noted.append(sampling.seed)
                    return await sample(sampling, provenance)

                conversation.sample = noting
                return conversation

        play(
            make_agent("adaplan", Noting(lambda m: PLAN if "you are the planner" in m[-1]["content"] else RIGHT)),
            seed=seed,
        )
        return noted

    first = seeds(1)
    assert first == seeds(1) and first != seeds(2) and len(set(first)) == len(first) == 6


def test_settings_that_contradict_each_other_are_refused():
    model = script(PLAN)
    for settings, message in (
        ({"replan": 0}, "must be 1 or more"),
        ({"candidates": 0}, "must be 1 or more"),
        ({"candidates": 2}, "set a temperature"),
        ({"planner": model, "plan_source": "expert"}, "give one of them"),
        ({"candidates": 2, "temperature": 1, "plan_source": "expert"}, "gives one plan"),
    ):
        with pytest.raises(ConfigError, match=message):
            make_agent("adaplan", model, **settings)
    with pytest.raises(UnknownNameError, match="did you mean 'every'"):
        make_agent("adaplan", model, replan="evry")


def test_what_a_result_records_is_json():
    record = make_agent("adaplan", script(PLAN), planner=script(PLAN), replan=2).describe()
    assert json.loads(json.dumps(record)) == record
    assert (record["mode"], record["replan"], record["planner"]) == ("isolated", 2, {"name": "scripted"})
    source = make_agent("adaplan", script(PLAN), plan_source="expert").describe()
    assert (source["mode"], source["plan_source"]) == ("unified", "expert")
