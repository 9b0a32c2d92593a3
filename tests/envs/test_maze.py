"""MAZE: recorded runs replay, generated mazes are what the docs say, every cell has a way to the goal."""

from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from adaplan_envs.errors import NoPlanError, UnknownNameError
from adaplan_envs.maze.env import MazeEnv
from adaplan_envs.maze.grid import DOUBLE_T_STARTS, distances, double_t
from adaplan_envs.types import ActionStatus, StopReason


def make(task: str | None = None, **options: Any) -> MazeEnv:
    env = MazeEnv(**options)
    if task is not None:
        env.reset(options={"task_id": f"maze/{task}"})
    return env


def fingerprint(split: str) -> str:
    env = make()
    mazes = [env.make_task(split, index).data for index in range(env.splits[split])]
    return hashlib.sha256("\n\n".join(f"{m.rows}{m.start}{m.goal}" for m in mazes).encode()).hexdigest()


# -- the reference ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rules", ["agentgym", "default"])
def test_recorded_runs_replay_position_walls_and_end(recorded: Any, rules: str) -> None:
    env = make(rules=rules)
    for episode in recorded("maze.jsonl"):
        _, info = env.reset(options={"task_id": f"maze/agentgym/{episode['game']:04d}"})
        assert list(info["position"]) == episode["start"]
        assert list(env.maze.goal) == episode["goal"]
        assert list(info["walls"]) == episode["walls"]
        for step in episode["steps"]:
            _, reward, terminated, truncated, info = env.step(step["a"])
            assert (terminated or truncated) is step["done"] is info["success"]
            assert reward == float(step["done"])
            if not step["done"]:
                assert list(info["position"]) == step["pos"]
                assert list(info["walls"]) == step["walls"]


def test_the_fixed_maze_has_26_open_cells_and_all_but_the_goal_are_starts() -> None:
    maze = double_t(0)
    assert (len(maze.rows), len(maze.rows[0])) == (10, 13)
    assert len(maze.distances) == 26
    assert set(maze.distances) - {maze.goal} == set(DOUBLE_T_STARTS)
    assert len(DOUBLE_T_STARTS) == len(set(DOUBLE_T_STARTS)) == MazeEnv.splits["agentgym"] == 25


def test_agentgym_rules_understand_only_the_long_form_and_explain_nothing() -> None:
    env = make("agentgym/0018", rules="agentgym")
    plain = env.render_mode, env._describe()
    for action, status in [("down", ActionStatus.UNPARSED), ("move left", ActionStatus.NO_EFFECT)]:
        observation, *_, info = env.step(action)
        assert (None, observation) == plain
        assert info["action_status"] is status
    assert env.step("  MOVE   Down ")[4]["success"]


def test_agentgym_rules_end_the_episode_at_the_51st_action_which_is_not_played() -> None:
    env = make("agentgym/0018", rules="agentgym")
    for _ in range(50):
        *_, terminated, truncated, info = env.step("move left")
        assert not terminated and not truncated
    *_, terminated, truncated, info = env.step("move down")
    assert terminated and not info["success"]
    assert info["stop_reason"] is StopReason.FAILURE


# -- the default rules -----------------------------------------------------------------------------------------------


def test_a_bump_stays_put_and_says_so() -> None:
    env = make("agentgym/0018")
    observation, reward, terminated, truncated, info = env.step("move left")
    assert "wall" in observation.partition(".")[0]
    assert (info["position"], info["action_status"]) == ((7, 6), ActionStatus.NO_EFFECT)
    assert (reward, terminated, truncated) == (0.0, False, False)


@pytest.mark.parametrize("action", ["down", "move down", "  Move\tDOWN\n"])
def test_short_and_long_form_in_any_case_and_spacing_move(action: str) -> None:
    *_, info = make("agentgym/0018").step(action)
    assert info["success"] and info["action"] == "move down" and info["score"] == 1.0


@pytest.mark.parametrize("action", ["", "move", "move down down", "go", "ä" * 100_000, "move\x00up", "下"])
def test_other_words_are_explained_and_move_nothing(action: str) -> None:
    observation, *_, info = make("agentgym/0018").step(action)
    assert info["action_status"] is ActionStatus.UNPARSED
    assert info["position"] == (7, 6)
    assert "move up, move down, move left or move right" in observation


def test_an_episode_is_truncated_at_the_limit() -> None:
    env = make("agentgym/0018", max_steps=2)
    env.step("up")
    *_, terminated, truncated, info = env.step("down")
    assert truncated and not terminated
    assert info["stop_reason"] is StopReason.MAX_STEPS
    assert info["score"] == 0.0


def test_score_is_the_share_of_the_way_done_and_never_negative() -> None:
    env = make("agentgym/0016")  # three cells above the goal
    assert [env.step(action)[4]["score"] for action in ("down", "up", "left", "right", "down", "down")] == [
        pytest.approx(share) for share in (1 / 3, 0, 0, 0, 1 / 3, 2 / 3)
    ]


def test_the_full_view_tells_position_goal_and_walls_and_the_partial_view_only_walls_and_moves() -> None:
    full, partial = make("agentgym/0017"), make("agentgym/0017", observe="partial")
    full.step("left"), partial.step("left")
    seen, hidden = full.step("down")[0], partial.step("down")[0]
    assert seen == "You are at 7, 6. The goal is at 8, 6. Walls: right, left."
    assert hidden == "Walls: right, left. Moves so far: left (wall), down."
    assert "8, 6" in full.current_task.goal and "8, 6" not in partial.current_task.goal
    assert full.rules != partial.rules


def test_wrong_options_name_the_right_ones() -> None:
    with pytest.raises(UnknownNameError, match="'full', 'partial'"):
        make(observe="ful")
    with pytest.raises(UnknownNameError, match="did you mean 'agentgym'"):
        make(rules="agentgim")
    with pytest.raises(UnknownNameError, match="maze/agentgym/0024"):
        make("agentgym/0025")


# -- the tasks -------------------------------------------------------------------------------------------------------


def test_every_generated_maze_is_walled_in_connected_and_as_long_as_its_difficulty() -> None:
    env = make()
    for task in (env.make_task(split, index) for split in ("train", "test") for index in range(env.splits[split])):
        maze = task.data
        assert set(maze.rows[0] + maze.rows[-1]) == {"#"}
        assert all(row[0] == row[-1] == "#" and len(row) == len(maze.rows[0]) for row in maze.rows)
        assert len(maze.distances) == "".join(maze.rows).count(".")
        assert 4 <= distances(maze.rows, maze.start)[maze.goal] == task.difficulty <= 40
        assert 7 <= len(maze.rows) <= 13 and 7 <= len(maze.rows[0]) <= 13


def test_kinds_take_turns_and_only_perfect_mazes_have_no_loops() -> None:
    mazes = [make().make_task("test", index).data for index in range(60)]
    assert Counter(maze.kind for maze in mazes) == {"perfect": 20, "rooms": 20, "open": 20}
    for maze in mazes:
        ways = sum(4 - len(maze.walls[cell]) for cell in maze.distances) // 2
        assert (ways == len(maze.distances) - 1) == (maze.kind == "perfect")


def test_no_layout_is_in_both_train_and_test_and_no_task_comes_twice() -> None:
    env = make()
    train = [env.make_task("train", index).data for index in range(env.splits["train"])]
    test = [env.make_task("test", index).data for index in range(env.splits["test"])]
    assert not {maze.rows for maze in train} & {maze.rows for maze in test}
    assert len(set(train)) == len(train) and len(set(test)) == len(test)


def test_the_tasks_never_change() -> None:
    assert fingerprint("test") == "2a6415099dec52bd22b8d63909dc7d6f13480b2b897e175096d38491e4e62117"
    assert fingerprint("train") == "4c53d07bdae86c2685728aee97c7d69652cc494bf0293005da00718d2c5f9e70"


def test_another_hash_seed_gives_the_same_tasks() -> None:
    code = "import tests.envs.test_maze as t; print(t.fingerprint('test'))"
    paths = os.pathsep.join([*filter(None, sys.path), str(Path.cwd())])
    environment = {**os.environ, "PYTHONHASHSEED": "4242", "PYTHONPATH": paths}
    child = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert child.stdout.strip() == fingerprint("test")


# -- expert, snapshots, pictures -------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", ["train", "test", "agentgym"])
def test_the_expert_solves_every_task_in_the_fewest_moves(split: str) -> None:
    env = make()
    for task_id in env.task_ids(split):
        env.reset(options={"task_id": task_id})
        assert len(env.expert.plan()) == env.current_task.difficulty
        done = False
        while not done:
            *_, terminated, truncated, info = env.step(env.expert.action())
            done = terminated or truncated
        assert info["success"] and info["steps"] == env.current_task.difficulty


def test_the_expert_plans_from_wherever_the_player_is() -> None:
    env = make("test/0000")
    for action in ("up", "left", "down", "right", "right"):
        env.step(action)
    plan = env.expert.plan()
    assert len(plan) == env.maze.distances[env.position]
    assert plan[0].startswith(f"Move {env.expert.action().removeprefix('move ')} to ")


def test_at_the_goal_the_plan_is_empty_and_there_is_no_next_action() -> None:
    env = make("agentgym/0018")
    env.step("down")
    assert env.expert.plan() == []
    with pytest.raises(NoPlanError, match="already at the goal"):
        env.expert.action()


def test_admissible_actions_are_those_that_move() -> None:
    env = make("agentgym/0016", admissible_actions=True)
    assert env.admissible_actions() == ["move down", "move left", "move right"]
    assert env.step("down")[4]["admissible_actions"] == ["move up", "move down"]


def test_a_snapshot_goes_back_history_included_even_after_pickling() -> None:
    env = make("test/0001", observe="partial")
    env.step(env.expert.action())
    snapshot = pickle.loads(pickle.dumps(env.snapshot()))
    ahead = [env.step(action)[0] for action in ("up", "down", "left", "right")]
    env.restore(snapshot)
    assert [env.step(action)[0] for action in ("up", "down", "left", "right")] == ahead


def test_gymnasiums_checker_accepts_it() -> None:
    check_env(gymnasium.make("AdaPlan/Maze-v0", render_mode="rgb_array").unwrapped)


def test_text_rendering_shows_player_goal_and_trail() -> None:
    env = make("agentgym/0017", render_mode="ansi")
    env.step("up")
    lines = env.render().splitlines()
    assert len(lines) == 10 and {len(line) for line in lines} == {26}
    assert (lines[5][12], lines[6][12], lines[8][12]) == ("@", "·", "G")


def test_the_picture_follows_the_player() -> None:
    env = make("agentgym/0017", render_mode="rgb_array")
    before = env.render()
    env.step("up")
    after = env.render()
    assert before.shape == (320, 416, 3) and before.dtype == np.uint8
    changed = {(r // 32, c // 32) for r, c in zip(*np.nonzero((before != after).any(-1)), strict=True)}
    assert changed == {(5, 6), (6, 6)}
