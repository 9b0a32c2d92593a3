"""The contract of every environment, kept by the simulated twins with the perfect simulator."""

from __future__ import annotations

from typing import Any

import gymnasium
import pytest

from adaplan_envs import SUITE, TextEnv, backends, vector
from adaplan_envs.registration import Entry
from tests.envs.episodes import digest, play
from tests.envs.test_contract import (  # noqa: F401 - pytest runs them on the twins below
    test_a_snapshot_goes_back_exactly_also_in_a_new_environment,
    test_admissible_actions_are_understood_and_computed_only_when_asked_for,
    test_any_string_is_an_action,
    test_case_and_blanks_do_not_matter,
    test_closing_twice_is_fine,
    test_gymnasium_accepts_it,
    test_info_has_the_same_keys_and_types_in_every_step,
    test_it_is_documented_under_the_same_headings_as_the_others,
    test_it_states_its_rules_for_every_ruleset,
    test_nothing_is_printed,
    test_random_actions_never_raise,
    test_render_modes_show_something,
    test_task_ids_lead_back_to_their_tasks,
    test_the_experts_plan_has_a_step_for_every_command,
    test_two_interleaved_environments_do_not_disturb_each_other,
)

TWINS = {f"Twins/{entry.id.partition('/')[2]}": entry for entry in SUITE}
for twin_id, entry in TWINS.items():
    if twin_id not in gymnasium.registry:
        gymnasium.register(
            twin_id,
            backends.Maker(entry),
            disable_env_checker=True,
            order_enforce=False,
            kwargs={"backend": "simulated", "simulator": "scripted"},
        )


def _marks(entry: Entry) -> list[pytest.MarkDecorator]:
    if not entry.installed:
        return [pytest.mark.skip(f"pip install adaplan[{entry.extra}]")]
    # ALFWorld's games take seconds to load, and a twin loads two of each.
    return [pytest.mark.slow] if entry.short_name == "alfworld" else []


@pytest.fixture(params=[pytest.param(twin_id, marks=_marks(entry)) for twin_id, entry in TWINS.items()])
def env_id(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def env(env_id: str) -> Any:
    made = gymnasium.make(env_id, admissible_actions=True)
    yield made.unwrapped
    made.close()


def test_the_perfect_simulator_shows_what_the_real_environment_shows(env_id: str) -> None:
    twin, real = (gymnasium.make(name).unwrapped for name in (env_id, TWINS[env_id].id))
    assert isinstance(twin, TextEnv)
    assert isinstance(real, TextEnv)
    assert twin.rules == real.rules
    for seed in range(4):
        shown, wanted = play(twin, seed), play(real, seed)
        # Observations, actions, rewards and ends; info differs by its keys.
        assert [part for part in shown if not isinstance(part, dict)] == [
            part for part in wanted if not isinstance(part, dict)
        ]
        for info, real_info in zip(
            [part for part in shown if isinstance(part, dict)],
            [part for part in wanted if isinstance(part, dict)],
            strict=True,
        ):
            same = ("task_id", "goal", "success", "steps", "max_steps", "stop_reason")
            assert {key: info[key] for key in same} == {key: real_info[key] for key in same}
            assert (info["backend"], real_info["backend"]) == ("simulated:scripted", "real")
            assert info["flags"] == []
    twin.close()
    real.close()


def test_what_a_simulator_must_know_is_json_and_the_same_every_time(env_id: str) -> None:
    first, second = (gymnasium.make(env_id).unwrapped for _ in range(2))
    for seed in range(3):
        first.reset(seed=seed)
        second.reset(seed=seed)
        assert isinstance(first, TextEnv)
        assert isinstance(second, TextEnv)
        assert first.hidden_facts()
        assert digest(first.hidden_facts()) == digest(second.hidden_facts())
        assert first.secrets() == second.secrets()
    first.close()
    second.close()


def test_facts_are_read_from_what_the_environment_says(env_id: str) -> None:
    real = gymnasium.make(TWINS[env_id].id).unwrapped
    assert isinstance(real, TextEnv)
    stated = 0
    for seed in range(3):
        _, info = real.reset(seed=seed)
        while info["stop_reason"] is None:
            observation, *_, info = real.step(real.expert.action())
            stated += bool(real.facts(observation))
    assert stated
    assert real.facts("Nothing that means anything.") == {}
    real.close()


def test_vector_environments_take_a_backend() -> None:
    envs = vector.make_vector("AdaPlan/Maze-v0", 2, backend="simulated", simulator="scripted")
    observations, infos = envs.reset(seed=[3, 4])
    assert all(text.strip() for text in observations)
    assert infos["backend"].tolist() == ["simulated:scripted"] * 2
    assert all(text.strip() for text in envs.step(("move up", "move down"))[0])
    envs.close()
