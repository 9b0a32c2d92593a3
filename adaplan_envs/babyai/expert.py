"""The expert: turns the solver's minigrid actions into the commands of the suite, as few as it can."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adaplan_envs.babyai.agentgym import AgentGymPlay
from adaplan_envs.babyai.levels import DROP, FORWARD, LEFT, MILESTONE, PICKUP, RIGHT, TOGGLE, follow
from adaplan_envs.babyai.play import Play
from adaplan_envs.babyai.solver import solve
from adaplan_envs.babyai.view import STEPS, kind
from adaplan_envs.errors import NoPlanError

Pose = tuple[int, int, int]

_TURNS = {LEFT: -1, RIGHT: 1}
_PURPOSE = {PICKUP: "to pick up the {}", TOGGLE: "to toggle the {}", DROP: "to put down the {}", MILESTONE: "to the {}"}


class BabyAIExpert:
    """Knows the whole grid, but may only give commands that the agent could.

    Args:
        current: returns the episode as it is now.
    """

    def __init__(self, current: Callable[[], Play | AgentGymPlay]) -> None:
        self._current = current

    def action(self) -> str:
        """The next command.

        Raises:
            NoPlanError: the mission can't be accomplished any more, or not in the moves that are left.
        """
        return self._next(self._current())[0]

    def plan(self) -> list[str]:
        """The remaining steps in words, one for each command; the first describes `action`.

        Raises:
            NoPlanError: the mission can't be accomplished any more, or not in the moves that are left.
        """
        current = self._current()
        self._next(current)  # so that the copy goes by the same plan
        copy = type(current).thaw(current.level_id, current.freeze())
        steps: list[str] = []
        while True:
            command, words = self._next(copy)
            steps.append(words)
            outcome = copy.play(command)
            if outcome.success:
                return steps
            if outcome.failed or outcome.truncated or len(steps) > copy.level.max_steps:
                raise NoPlanError(f"the plan for this mission leads nowhere: {copy.level.mission}")

    def _next(self, play: Play | AgentGymPlay) -> tuple[str, str]:
        """Return the next command and what it is for."""
        level = play.level
        if not play.planned:
            play.planned = solve(play.level_id, level)
            left = play.budget - level.step_count
            needed = sum(move != MILESTONE for move in play.planned)
            if needed > left:
                raise NoPlanError(f"{needed} moves are needed, the level allows {max(left, 0)} more")
        while play.planned[0] == MILESTONE:
            play.planned = play.planned[1:]
        planned = play.planned
        # The poses up to the first action that changes the world or the first part that is done, at planned[until].
        poses = [(int(level.agent_pos[0]), int(level.agent_pos[1]), int(level.agent_dir))]
        until = 0
        while planned[until] in (LEFT, RIGHT, FORWARD):
            poses.append(_after(poses[-1], planned[until]))
            until += 1
        best: tuple[int, int, str, list[int]] | None = None
        for command, moves in play.options().items():
            served = _serves(moves, planned, poses, exact=isinstance(play, AgentGymPlay))
            if served is not None and (best is None or (served[0], -len(moves)) > best[:2]):
                best = (served[0], -len(moves), command, served[1])
        if best is None:
            raise NoPlanError("the next move of the plan is not among the available actions")
        _, _, command, play.planned = best
        return command, self._words(command, play, poses[-1], planned[until])

    @staticmethod
    def _words(command: str, play: Play | AgentGymPlay, pose: Pose, change: int) -> str:
        sentence = command[0].upper() + command[1:]
        if command.count(" ") > 1 or command in ("pick up", "toggle"):  # it names its object, or that is in front
            return f"{sentence}."
        level = play.level
        x, y = _ahead(pose)
        thing: Any = level.carrying if change == DROP else level.grid.get(x, y)
        if thing is None or command == "drop":
            return f"{sentence}{' the ' + kind(thing) if command == 'drop' else ''}."
        return f"{sentence}, {_PURPOSE[change].format(kind(thing))}."


def _ahead(pose: Pose) -> tuple[int, int]:
    x, y, direction = pose
    return x + STEPS[direction][0], y + STEPS[direction][1]


def _after(pose: Pose, move: int) -> Pose:
    if move == FORWARD:
        return (*_ahead(pose), pose[2])
    return pose[0], pose[1], (pose[2] + _TURNS[move]) % 4


def _serves(moves: list[int], planned: list[int], poses: list[Pose], exact: bool) -> tuple[int, list[int]] | None:
    """Return how many planned actions a command's `moves` do, and the plan with them in front; None if they don't help.

    They help where they end in one of the plan's `poses`, or bring about its next change of the world or look at
    something, be it from another side (then a new plan is needed: it is empty), unless it is a drop or a mere toggle,
    after which the side matters. By the reference's rules (`exact`) they must be the next actions of the plan, for a
    command may run into what is out of sight.
    """
    if not moves:
        return None
    if exact:
        return (len(moves), planned) if planned[: len(moves)] == moves else None
    pose, steps = poses[0], 0
    while steps < len(moves) and moves[steps] in (LEFT, RIGHT, FORWARD):
        pose = _after(pose, moves[steps])
        steps += 1
    ending, until = moves[steps:], len(poses) - 1
    if not ending and pose in poses[1:]:
        at = until - poses[::-1].index(pose)
        return at, moves + planned[at:]
    rest = planned[until:]
    if _ahead(pose) != _ahead(poses[-1]) or (not ending and rest[0] != MILESTONE):
        return None
    for move in ending:
        if all(left == MILESTONE for left in rest):
            break  # the mission is over before the command is
        rest = follow(rest, move)
        if not rest:
            return None
    if pose == poses[-1]:
        return until + len(ending), moves + rest
    return None if ending in ([DROP], [TOGGLE]) else (until + len(ending), [])
