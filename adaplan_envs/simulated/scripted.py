"""The scripted simulator: the real environment in a model's clothes, perfect or wrong at a known rate."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from adaplan_envs.chat import ChatReply, Message, Sampling, Usage
from adaplan_envs.core import TextEnv, stable_rng
from adaplan_envs.errors import ConfigError, SimulatorError, check_name
from adaplan_envs.simulated.protocol import Answer, read_action
from adaplan_envs.types import ActionStatus, StopReason

KINDS = ("observation", "valid", "success")
"""The errors of ``scripted:RATE``, equally likely. ``malformed`` has to be asked for."""
WRONG_OBSERVATION = "Something seems to have changed, but you can't tell what."
_EPISODE = re.compile(r"^Episode: (\S+), seed (\d+)\.$", re.M)


class Replica:
    """A real environment that is brought to where an episode stands, by playing its actions.

    Args:
        make: makes the environment, at the first use.
    """

    def __init__(self, make: Callable[[], TextEnv]) -> None:
        self._make = make
        self._env: TextEnv | None = None
        self._played: tuple[str, int, tuple[str, ...]] | None = None
        self.observation = ""
        self.info: dict[str, Any] = {}
        """Of the last step, or of the reset."""
        self.over = False
        """Whether the episode had ended in the real environment before all actions were played."""

    def at(self, task_id: str, seed: int, actions: Sequence[str]) -> TextEnv:
        """Return the environment after `actions`; an episode that goes on costs its new actions alone."""
        if self._env is None:
            self._env = self._make()
        env, actions = self._env, tuple(actions)
        known = self._played[2] if self._played and self._played[:2] == (task_id, seed) else None
        self._played = None  # whatever raises in between: begin anew
        if known is None or actions[: len(known)] != known:
            self.observation, self.info = env.reset(seed=seed, options={"task_id": task_id})
            known, self.over = (), False
        for action in actions[len(known) :]:
            if self.ended:
                self.over = True
                break
            self.observation, *_, self.info = env.step(action)
        self._played = (task_id, seed, actions)
        return env

    @property
    def ended(self) -> bool:
        """Whether the episode has ended in the real environment."""
        return self.info["stop_reason"] is not None

    def close(self) -> None:
        """Close the environment."""
        if self._env is not None:
            self._env.close()


class ScriptedSimulator:
    """Answers as the real environment does. It knows the episode from the messages alone, as a model would.

    Args:
        spec: ``scripted`` is right always, ``scripted:0.1`` wrong in a tenth of its answers, ``scripted:0.1:valid``
            always in this way: ``observation`` (a sentence without facts), ``valid`` (the opposite), ``success``
            (claims or denies it, and ends the episode or goes on accordingly), ``malformed`` (half a JSON object).
        make: makes the real environment.

    Raises:
        ConfigError: the spec is none of these.
    """

    def __init__(self, spec: str, make: Callable[[], TextEnv]) -> None:
        _, _, rest = spec.partition(":")
        rate, _, kind = rest.partition(":")
        try:
            self.rate = float(rate or 0)
        except ValueError:
            self.rate = -1.0
        if not 0 <= self.rate <= 1:
            raise ConfigError(f"{spec!r}: the rate of wrong answers is a number from 0 to 1, such as scripted:0.1")
        self.kinds = (check_name("kind of error", kind, (*KINDS, "malformed")),) if kind else KINDS
        self.name = spec
        self._replica = Replica(make)

    async def chat(self, messages: Sequence[Message], sampling: Sampling | None = None) -> ChatReply:
        """Return the answer to the last action, as JSON."""
        match = _EPISODE.search(messages[0]["content"])
        if match is None:
            raise SimulatorError("the scripted simulator plays the twins of real environments only")
        told = [message["content"] for message in messages[1:] if message["role"] == "user"]
        actions = [action for action in map(read_action, told) if action is not None]
        task_id, seed = match[1], int(match[2])
        answer = self._answer(task_id, seed, actions)
        # Which answers are wrong depends on the episode, the action and how often it was asked again.
        rng = stable_rng("scripted simulator", self.name, task_id, seed, *told)
        text = answer.to_json()
        if rng.random() < self.rate:
            kind = rng.choice(self.kinds)
            text = text[: len(text) // 2] if kind == "malformed" else _spoilt(answer, kind).to_json()
        read = sum(len(message["content"].split()) for message in messages)
        return ChatReply(text, Usage(read, len(text.split()), 1))

    def _answer(self, task_id: str, seed: int, actions: list[str]) -> Answer:
        replica = self._replica
        replica.at(task_id, seed, actions)
        if replica.over:  # an error of ours let the episode go on after its end
            return Answer("over", False, "The episode is over.", False, False)
        info = replica.info
        valid = info["action_status"] in (ActionStatus.OK, ActionStatus.NO_EFFECT)
        # A budget of the environment's own ends it as well; the limit of steps is the twin's business.
        done = replica.ended and (info["stop_reason"] is not StopReason.MAX_STEPS or info["steps"] < info["max_steps"])
        return Answer(f"step {info['steps']}", valid, replica.observation, done, info["success"])

    def close(self) -> None:
        """Close the real environment."""
        self._replica.close()


def _spoilt(answer: Answer, kind: str) -> Answer:
    if kind == "observation":
        return replace(answer, observation=WRONG_OBSERVATION)
    if kind == "valid":
        return replace(answer, valid=not answer.valid)
    return replace(answer, success=not answer.success, done=not answer.success)
