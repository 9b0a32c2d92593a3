"""`SimulatedEnv`: a text environment whose rules a language model plays."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
from abc import abstractmethod
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from adaplan_envs.chat import Message, Sampling, Usage
from adaplan_envs.core import TextEnv, stable_rng
from adaplan_envs.errors import ConfigError, ContextOverflowError, ModelAccessError, ModelError, SimulatorError
from adaplan_envs.simulated.guard import Guard
from adaplan_envs.simulated.protocol import ANSWER_SCHEMA, Answer, UnusableAnswer, read_answer, write_action
from adaplan_envs.simulated.simulator import BudgetSpentError, Simulator, start, wait_for
from adaplan_envs.types import ActionStatus, Outcome, Snapshot, StopReason, Task

ASKED_AGAIN = 2
"""How often an unusable answer is asked for again."""
_ANSWER_TOKENS = 1024
_USAGE = tuple(each.name for each in dataclasses.fields(Usage))
_REFUSED = "You can't find that out this way."


@dataclass(frozen=True, slots=True)
class Scenario:
    """One task, as the simulator is told it. Picklable.

    Attributes:
        opening: the first observation.
        hidden: what only the simulator knows; JSON types.
        secrets: see `TextEnv.secrets`.
        manual: what the simulator should know besides the rules that the player was told, or empty.
    """

    opening: str
    hidden: dict[str, Any]
    secrets: tuple[tuple[str, ...], ...] = ()
    manual: str = ""


@dataclass(frozen=True, slots=True)
class Played:
    """One step: the action, the simulator's answer as it gets it back, and what the player was told."""

    action: str
    answer: str
    observation: str


@dataclass(frozen=True, slots=True)
class Episode:
    """An episode in progress. Immutable: a snapshot is the object itself.

    Attributes:
        scenario: the task.
        steps: what was played.
        shown: how many of the last steps the simulator is shown; None for all. Halved when its window overflows.
        usage: of the simulator, so far.
        flags: what had to be mended in the last step; see `SimulatedEnv`.
        stop: set when the simulator itself ended the episode: an error, or its budget.
        error: what went wrong.
    """

    scenario: Scenario
    steps: tuple[Played, ...] = ()
    shown: int | None = None
    usage: Usage = field(default_factory=Usage)
    flags: tuple[str, ...] = ()
    stop: StopReason | None = None
    error: str | None = None

    @property
    def actions(self) -> tuple[str, ...]:
        """The actions so far."""
        return tuple(step.action for step in self.steps)


class SimulatedEnv(TextEnv):
    """What the simulated environments have in common.

    A simulator's answer is taken by these rules:

    1. Success ends the episode, whether it says ``done`` or not (flag ``not_done``).
    2. An action that is not valid changes nothing: success or an end that it is said to bring do not count (flag
       ``invalid_end``).
    3. ``done`` without success is a failure.
    4. Success in the very last step counts; after `max_steps` nothing is asked any more.
    5. An unusable answer (no JSON, a field missing) or one that gives secrets away is asked for again at most twice
       (flag ``asked_again``). What is unusable even then ends the episode as ``error``; what gives secrets away even
       then is replaced by a refusal (flag ``leak``).
    6. JSON that could be repaired is taken (flag ``repaired``).

    ``info`` has three keys more: ``usage`` (of the simulator in this episode: prompt_tokens, completion_tokens,
    requests, cost; answers from the cache are no requests and cost nothing), ``flags`` of the last step, and ``error``,
    which says what went wrong where ``stop_reason`` is ``error`` or ``budget``.

    Args:
        simulator: who plays the environment.
        temperature: of its answers. Above 0, equal seeds give equal answers where the model can promise that.
        prompt: file with another prompt than ``prompts/simulator.md``, with the same placeholders.
        **options: see `TextEnv`.
    """

    extra_info = ("usage", "flags", "error")
    blocking = True
    _state: Episode

    def __init__(
        self, simulator: Simulator, *, temperature: float = 0.0, prompt: str | Path | None = None, **options: Any
    ) -> None:
        self._prompt = read_prompt(prompt)
        self.sampling = Sampling(temperature=temperature, max_tokens=_ANSWER_TOKENS, json_schema=ANSWER_SCHEMA)
        self.simulator = simulator
        self.backend = f"simulated:{simulator.name}"
        super().__init__(**options)
        self._guard: tuple[Scenario, Guard] | None = None
        self._asked: Future[tuple[Answer, bool]] | None = None
        """The answer to the action that `step_async` is about to play."""

    @abstractmethod
    def _scenario(self, task: Task, seed: int) -> Scenario:
        """Return what the simulator is told of `task`."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode; see `TextEnv.reset`.

        Raises:
            BudgetSpentError: the simulator's budget is spent.
        """
        self.simulator.check_budget()
        return super().reset(seed=seed, options=options)

    def _begin(self, task: Task, seed: int) -> str:
        self._state = Episode(self._scenario(task, seed))
        return self._state.scenario.opening

    # -- a step -------------------------------------------------------------------------------------------------

    async def step_async(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play one action, as `step` does, and leave the event loop to others meanwhile.

        Cancelled, it breaks off in the middle of a step: the environment has to be reset.
        """
        if isinstance(action, str) and not self._done:  # or `step` says what is wrong
            asked = start(self._ask(" ".join(action.split()).lower()))
            with suppress(Exception):  # `step` meets it again
                await asyncio.wrap_future(asked)
            self._asked = asked
        return self.step(action)

    def _apply(self, action: str) -> Outcome:
        asked, self._asked = self._asked or start(self._ask(action)), None
        try:
            answer, leaks = wait_for(asked)
        except BudgetSpentError as error:
            return self._stop(StopReason.BUDGET, action, str(error))
        except ModelAccessError:
            raise
        except (ModelError, SimulatorError) as error:
            self.simulator.failures[type(error).__name__] += 1
            return self._stop(StopReason.ERROR, action, f"{type(error).__name__}: {error}")
        except UnusableAnswer as error:
            return self._stop(StopReason.ERROR, action, f"no usable answer of the simulator: {error}")
        return self._take(action, answer, leaks)

    def _stop(self, reason: StopReason, action: str, error: str) -> Outcome:
        self._state = dataclasses.replace(self._state, stop=reason, error=error)
        text = "The simulation of this environment has broken off."
        return Outcome(text, ActionStatus.NO_EFFECT, action, truncated=True)

    def _take(self, action: str, answer: Answer, leaks: bool) -> Outcome:
        """Apply the rules of the class's docstring."""
        success, over = answer.success, answer.done or answer.success
        if not answer.valid and over:
            self._flag("invalid_end")
            success = over = False
        if success and not answer.done:
            self._flag("not_done")
        observation = answer.observation
        if leaks:
            self._flag("leak")
            observation = _REFUSED
        step = Played(action, answer.to_json(), observation)
        self._state = dataclasses.replace(self._state, steps=(*self._state.steps, step))
        status = ActionStatus.OK if answer.valid else ActionStatus.INVALID
        return Outcome(observation, status, action, success=success, failed=over and not success)

    def _flag(self, flag: str) -> None:
        if flag not in self._state.flags:
            self._state = dataclasses.replace(self._state, flags=(*self._state.flags, flag))

    async def _ask(self, action: str) -> tuple[Answer, bool]:
        """Return the simulator's answer to the next action and whether it gives secrets away even so.

        The state notes what it took to get it.
        """
        before = self._state
        self._state = dataclasses.replace(before, flags=(), stop=None, error=None)
        try:
            return await self._usable_answer(action)
        except BudgetSpentError:
            raise
        except ModelAccessError:
            self._state = before
            raise

    async def _usable_answer(self, action: str) -> tuple[Answer, bool]:
        """Ask again where an answer can't be used or gives secrets away; see `_ask`."""
        complaints: list[Message] = []
        for attempt in range(ASKED_AGAIN + 1):
            text, cut = await self._reply(action, complaints)
            try:
                answer, repaired = read_answer(text, cut)
                over = answer.valid and (answer.done or answer.success)
                leaks = not over and self._leaks(action, answer)
                if attempt == ASKED_AGAIN or not leaks:
                    if repaired:
                        self._flag("repaired")
                    return answer, leaks
                raise UnusableAnswer("leak", "observation tells hidden facts that the player has not found out.")
            except UnusableAnswer as problem:
                self.simulator.failures[problem.kind] += 1
                if attempt == ASKED_AGAIN:
                    raise
                self._flag("asked_again")
                again = f"This can't be used: {problem} Answer the same action again, with one JSON object alone."
                complaints += [{"role": "assistant", "content": text}, {"role": "user", "content": again}]
        raise AssertionError("unreachable")

    async def _reply(self, action: str, complaints: list[Message]) -> tuple[str, bool]:
        """Return what the simulator says, and whether it was cut; show it less where its window overflows."""
        state, sampling = self._state, self.sampling
        if sampling.temperature > 0:
            # Each question has a seed of its own: of the episode, its step and how often it was asked.
            rng = stable_rng("simulator", self._seed, len(state.steps), len(complaints))
            sampling = dataclasses.replace(sampling, seed=rng.getrandbits(31))
        while True:
            try:
                reply = await self.simulator.ask([*self._messages(action), *complaints], sampling)
                break
            except ContextOverflowError:
                shown = len(state.steps) if self._state.shown is None else self._state.shown
                if not shown:
                    raise
                self._state = dataclasses.replace(self._state, shown=shown // 2)
        self._state = dataclasses.replace(self._state, usage=self._state.usage + reply.usage)
        return reply.text, reply.finish_reason == "length"

    def _leaks(self, action: str, answer: Answer) -> bool:
        state = self._state
        if self._guard is None or self._guard[0] is not state.scenario:
            scenario, goal = state.scenario, self.current_task.goal
            guard = Guard(scenario.secrets, scenario.hidden, f"{self.rules}\n{goal}\n{scenario.opening}")
            self._guard = (scenario, guard)
        notes = [answer.notes, *(json.loads(step.answer)["notes"] for step in state.steps[-1:])]
        seen = [step.observation for step in state.steps]
        return self._guard[1].leaks(answer.observation, notes, [*state.actions, action], seen)

    def _messages(self, action: str) -> list[Message]:
        """Return the conversation: append-only as long as the window holds it, so that servers can reuse its prefix."""
        state, limit = self._state, self.max_steps
        first = 0 if state.shown is None else len(state.steps) - min(state.shown, len(state.steps))
        briefing = self._briefing()
        if first:  # what is not shown any more lives on in the notes
            notes = json.loads(state.steps[first - 1].answer)["notes"]
            briefing += f"\nYour notes after action {first}: {notes}\n"
        messages: list[Message] = [{"role": "system", "content": briefing}]
        for number, step in enumerate(state.steps[first:], first + 1):
            messages.append({"role": "user", "content": write_action(number, limit, step.action)})
            messages.append({"role": "assistant", "content": step.answer})
        messages.append({"role": "user", "content": write_action(len(state.steps) + 1, limit, action)})
        return messages

    def _briefing(self) -> str:
        scenario, task = self._state.scenario, self.current_task
        filled = {
            "episode": f"{task.id}, seed {self._seed}",
            "rules": self.rules,
            "manual": f"# More on the environment\n{scenario.manual}\n\n" if scenario.manual else "",
            "goal": task.goal,
            "facts": json.dumps(scenario.hidden, ensure_ascii=False, default=str),
            "opening": scenario.opening,
            "limit": str(self.max_steps),
        }
        # Split and not replaced one after the other: a filled-in text may hold braces of its own.
        return "".join(filled.get(part[1:-1], part) for part in self._prompt)

    # -- the rest of the contract -------------------------------------------------------------------------------

    def _make_info(self, outcome: Outcome, stop: StopReason | None) -> dict[str, Any]:
        return super()._make_info(outcome, self._state.stop or stop)

    def _extra_info(self) -> dict[str, Any]:
        state = self._state
        usage = {name: getattr(state.usage, name) for name in _USAGE}
        return {"usage": usage, "flags": list(state.flags), "error": state.error}

    def hidden_facts(self) -> dict[str, Any]:
        return self._state.scenario.hidden

    def secrets(self) -> list[tuple[str, ...]]:
        return list(self._state.scenario.secrets)

    def snapshot(self) -> Snapshot:
        """Return a picklable copy of the episode. It goes into a simulated environment alone, not into a real one."""
        return dataclasses.replace(super().snapshot(), env=f"simulated {self.name}")

    def restore(self, snapshot: Snapshot) -> tuple[str, dict[str, Any]]:
        """Go back to `snapshot`; see `TextEnv.restore`."""
        if snapshot.env != f"simulated {self.name}":
            raise ConfigError(f"a snapshot of {snapshot.env} can't be restored into a simulated {self.name}")
        return super().restore(dataclasses.replace(snapshot, env=self.name))

    def _get_state(self) -> Episode:
        return self._state

    def _set_state(self, state: Episode) -> None:
        self._state = state


def read_prompt(path: str | Path | None) -> tuple[str, ...]:
    """Return a prompt in pieces, its placeholders such as ``{rules}`` among them; None reads the one shipped here.

    Raises:
        ConfigError: the file can't be read, or has none of the placeholders that it must have.
    """
    if path is None:
        return _own_prompt()
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"the simulator's prompt {path} can't be read: {error.strerror}") from None
    lacking = [f"{{{name}}}" for name in ("rules", "goal", "facts", "opening") if f"{{{name}}}" not in text]
    if lacking:
        raise ConfigError(f"the simulator's prompt {path} lacks {', '.join(lacking)}")
    return _pieces(text)


@cache
def _own_prompt() -> tuple[str, ...]:
    return _pieces((files("adaplan_envs.simulated") / "prompts" / "simulator.md").read_text(encoding="utf-8"))


def _pieces(text: str) -> tuple[str, ...]:
    return tuple(re.split(r"(\{[a-z]+\})", text))
