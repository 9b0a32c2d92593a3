"""`AdaPlan/Simulated-v0`: environments that are a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

from adaplan_envs import TextEnv, resolve_id
from adaplan_envs.errors import ConfigError, NoPlanError, UnknownNameError
from adaplan_envs.registration import SIMULATED
from adaplan_evaluation import evaluate, load_run
from tests.envs.test_contract import GARBAGE, check_info

VAULT = """
name: Vault
rules: You stand before a vault with a red, a green and a blue button. Open it with the right sequence.
actions:
  - press COLOUR
  - look
goal: Open the vault.
opening: The vault is shut. Three buttons glow.
hidden: {code: [red, blue, red]}
secrets: ["red, blue, red"]
success: The last three buttons pressed were the hidden code, in its order.
max_steps: 10
walkthrough: [press RED, press blue, press red]
tasks:
  train:
    - {}
    - hidden: {code: [green, green]}
      goal: Open the green vault.
      secrets: []
      walkthrough: []
  test:
    - opening: The vault is shut.
"""


class Vault:
    """Plays the vault by the hidden facts and the messages that any simulator gets."""

    name = "vault keeper"

    async def chat(self, messages: Any) -> str:
        code = json.loads(messages[0]["content"].partition("known to you alone\n")[2].partition("\n")[0])["code"]
        pressed = [json.loads(message["content"])["notes"] for message in messages if message["role"] == "assistant"]
        action = json.loads(messages[-1]["content"].partition(": ")[2])
        colour = action.removeprefix("press ")
        valid = colour in ("red", "green", "blue")
        won = valid and [*pressed, colour][-len(code) :] == code
        answer = {
            "notes": colour if valid else "",
            "valid": valid,
            "observation": "It opens." if won else "Click." if valid else "Nothing to do that with.",
            "done": won,
            "success": won,
        }
        return json.dumps(answer)


@pytest.fixture
def task_file(tmp_path: Path) -> Path:
    path = tmp_path / "vault.yaml"
    path.write_text(VAULT)
    return path


def make(task_file: Path, **options: Any) -> TextEnv:
    env = gymnasium.make(SIMULATED.id, task_file=task_file, simulator=Vault(), **options).unwrapped
    assert isinstance(env, TextEnv)
    return env


def test_a_file_is_an_environment(task_file: Path) -> None:
    env = make(task_file)
    check_env(env, skip_render_check=True)
    observation, info = env.reset(options={"task_id": "vault/train/0000"})
    check_info(env, info)
    assert observation == "The vault is shut. Three buttons glow."
    assert "- press COLOUR" in env.rules
    assert (info["goal"], info["max_steps"], info["backend"]) == ("Open the vault.", 10, "simulated:vault keeper")
    for action, wanted in (("press green", "Click."), ("jump", "Nothing to do that with."), ("press red", "Click.")):
        observation, reward, *_, info = env.step(action)
        check_info(env, info)
        assert (observation, reward) == (wanted, 0.0)
    env.step("press blue")
    observation, reward, terminated, _, info = env.step("PRESS  red")
    assert (observation, reward, terminated, info["stop_reason"]) == ("It opens.", 1.0, True, "success")


def test_tasks_differ_from_the_file_where_they_say_so(task_file: Path) -> None:
    env = make(task_file)
    assert (env.splits, env.split) == ({"train": 2, "test": 1}, "train")
    env.reset(options={"task_id": "vault/train/0001"})
    assert env.current_task.goal == "Open the green vault."
    assert env.hidden_facts() == {"code": ["green", "green"]}
    observation, _ = make(task_file, split="test").reset(seed=0)
    assert observation == "The vault is shut."


def test_any_string_is_an_action(task_file: Path) -> None:
    env = make(task_file)
    for garbage in GARBAGE:
        env.reset(seed=0)
        check_info(env, env.step(garbage)[-1])


def test_the_walkthrough_is_the_expert_until_something_else_is_played(task_file: Path) -> None:
    env = make(task_file)
    _, info = env.reset(options={"task_id": "vault/train/0000"})
    assert env.expert.plan() == ["press red", "press blue", "press red"]
    while info["stop_reason"] is None:
        info = env.step(env.expert.action())[-1]
    assert info["success"]
    env.reset(options={"task_id": "vault/train/0000"})
    env.step("press green")
    with pytest.raises(NoPlanError):
        env.expert.plan()
    env.reset(options={"task_id": "vault/train/0001"})
    with pytest.raises(NoPlanError):
        env.expert.action()


def test_it_is_evaluated_and_vectorised_as_the_others_are(task_file: Path) -> None:
    assert resolve_id("simulated") == SIMULATED.id
    settings = {"task_file": str(task_file), "simulator": Vault()}
    run = evaluate(lambda observation: "press red", "simulated", episodes=None, env_settings=settings)
    assert [(episode.task_id, episode.steps) for episode in run.episodes] == [("vault/test/0000", 10)]
    envs = gymnasium.make_vec(SIMULATED.id, num_envs=2, **settings)
    assert envs.reset(seed=0)[0] == ("The vault is shut. Three buttons glow.",) * 2
    envs.close()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rules: You", "rule: You", "did you mean 'rules'"),
        ("rules: You", "#", "rules are missing"),
        ("goal: Open the vault.", "", "no goal"),
        ("max_steps: 10", "max_steps: many", "max_steps"),
        ("    - opening: The vault is shut.", "    - openning: The vault is shut.", "did you mean 'opening'"),
        ("  test:\n    - opening: The vault is shut.", "  test: []", "tasks"),
        ("hidden: {code: [red, blue, red]}", "hidden: red", "hidden"),
        ("name: Vault", "name: a/b", "slash"),
        ("actions:", "actions: [", "not valid YAML"),
    ],
)
def test_a_wrong_description_is_refused_with_its_place(task_file: Path, old: str, new: str, message: str) -> None:
    assert old in VAULT
    task_file.write_text(VAULT.replace(old, new, 1))
    with pytest.raises(ConfigError, match=message):
        make(task_file)


def test_what_is_missing_is_named(tmp_path: Path, task_file: Path) -> None:
    with pytest.raises(ConfigError, match="task_file"):
        gymnasium.make(SIMULATED.id)
    with pytest.raises(ConfigError, match="can't be read"):
        make(tmp_path / "nowhere.yaml")
    with pytest.raises(ConfigError, match="who simulates"):
        gymnasium.make(SIMULATED.id, task_file=task_file)
    with pytest.raises(ConfigError, match="no real environment"):
        gymnasium.make(SIMULATED.id, task_file=task_file, simulator="scripted")
    with pytest.raises(UnknownNameError):
        make(task_file, split="valid")


def test_the_eval_command_takes_a_backend(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from adaplan_envs.cli import main

    arguments = "eval --agent expert --envs maze --episodes 2 --backend simulated --simulator scripted --out"
    assert main([*arguments.split(), str(tmp_path / "run")]) == 0
    assert [episode.backend for episode in load_run(tmp_path / "run").episodes] == ["simulated:scripted"] * 2
    assert "100.0" in capsys.readouterr().out
