"""The agents to compare with: naive, ReAct, MPO, random, expert, and any function of the user's."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from adaplan_agents.models import Model, Provenance, load_model
from adaplan_agents.parsing import parse_plan, parse_response
from adaplan_agents.plan import Plan
from adaplan_agents.prompting import BRIEF
from adaplan_agents.session import ModelAgent, ModelSession
from adaplan_agents.types import Agent, Briefing, Decision, Session
from adaplan_envs import TextEnv
from adaplan_envs.chat import Sampling
from adaplan_envs.core import stable_rng
from adaplan_envs.errors import ConfigError

Function = Callable[..., str | Awaitable[str]]


class ReActAgent(ModelAgent):
    """Thinks, then acts, at every observation; no plan (Yao et al., 2023)."""

    kind = "react"

    def start(self, briefing: Briefing) -> ModelSession:
        return _ReActSession(self, briefing)


class NaiveAgent(ReActAgent):
    """Answers every observation with a command alone.

    Args:
        model: what it asks.
        sampling: how, see `ModelAgent`.
        prompts: see `ModelAgent`.
        admissible: the answer is one of the commands that the environment admits now, as the random agent's is; where
            it lists none, anything. The model is not told which they are: no other tokens can be drawn. For models in
            this process (``hf:``, ``vllm:``).
        no_repeat: of these, one that was not given in this episode to the same observation before, as long as there is
            one: what is the same has led here again.

    Raises:
        ConfigError: `no_repeat` without `admissible`.
    """

    kind = "naive"

    def __init__(
        self,
        model: Model,
        *,
        sampling: Sampling | None = None,
        prompts: str | Path | None = None,
        admissible: bool = False,
        no_repeat: bool = False,
    ) -> None:
        super().__init__(model, sampling=sampling, prompts=prompts)
        if no_repeat and not admissible:
            raise ConfigError(f"agent {self.kind}: no_repeat chooses among admissible commands; set admissible, too")
        self.admissible, self.no_repeat = admissible, no_repeat

    def start(self, briefing: Briefing) -> ModelSession:
        return _NaiveSession(self, briefing)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "admissible": self.admissible, "no_repeat": self.no_repeat}


class BriefAgent(NaiveAgent):
    """The naive agent with brief prompts: the goal and what it observes, no rules. For models trained on the suite.

    Args:
        model: see `NaiveAgent`, as for the following.
        sampling: how to ask.
        prompts: folder with prompt files that replace the naive agent's.
        admissible: hold answers to admissible commands.
        no_repeat: and to those that are new for what it observes.
    """

    def __init__(
        self,
        model: Model,
        *,
        sampling: Sampling | None = None,
        prompts: str | Path | None = BRIEF,
        admissible: bool = False,
        no_repeat: bool = False,
    ) -> None:
        super().__init__(model, sampling=sampling, prompts=prompts, admissible=admissible, no_repeat=no_repeat)
        self.name = "brief"


class Given:
    """The commands that were given in an episode, by the observation that they answered."""

    def __init__(self) -> None:
        self._commands: defaultdict[str, set[str]] = defaultdict(set)

    def add(self, observation: str, command: str) -> None:
        """Note an answer."""
        self._commands[observation].add(command)

    def fresh(self, observation: str, commands: Sequence[str]) -> list[str]:
        """Return those of `commands` that did not answer `observation` yet; all, where all did."""
        known = self._commands[observation]
        return [command for command in commands if command not in known] or list(commands)


class _ReActSession(ModelSession):
    def __init__(self, agent: ModelAgent, briefing: Briefing) -> None:
        super().__init__(agent, briefing)
        system = agent.prompts.render("system", rules=briefing.rules, goal=briefing.goal)
        self.conversations["executor"] = agent.model.open(system)

    async def act(self, observation: str) -> Decision:
        conversation = self.conversations["executor"]
        self.observe(conversation, observation)
        reply = await self.ask(conversation, Provenance.EXECUTOR)
        return self.decide(parse_response(reply.text), reply.text)


class _NaiveSession(_ReActSession):
    agent: NaiveAgent

    def __init__(self, agent: NaiveAgent, briefing: Briefing) -> None:
        super().__init__(agent, briefing)
        self._env = cast(TextEnv, briefing.env.unwrapped)
        self._given = Given()
        self._observation = ""

    async def act(self, observation: str) -> Decision:
        self._observation = observation
        decision = await super().act(observation)
        self._given.add(observation, "".join(decision.action.split()) if self._env.spelled else decision.action)
        return decision

    def sampling(self) -> Sampling:
        commands = self._env.admissible_actions() if self.agent.admissible else None
        if not commands:
            return self.agent.sampling
        if self.agent.no_repeat:
            commands = self._given.fresh(self._observation, commands)
        if self._env.spelled:
            commands = [*commands, *map(" ".join, commands)]
        return replace(self.agent.sampling, choices=tuple(f"Action: {command}" for command in commands))


class MPOAgent(ModelAgent):
    """A planner writes one general plan before the first action, and never again; the executor is a ReAct agent.

    Meta Plan Optimization (Xiong et al., 2025): planner and executor are separate, and the executor is frozen. The plan
    is guidance, not one step for each action, so `Decision.plan` never advances.

    Args:
        planner: the model that writes the plan, or its spec string; by default `model`, in a conversation of its own.
    """

    kind = "mpo"

    def __init__(
        self,
        model: Model,
        *,
        planner: Model | str | None = None,
        sampling: Sampling | None = None,
        prompts: str | Path | None = None,
    ) -> None:
        super().__init__(model, sampling=sampling, prompts=prompts)
        self.planner = load_model(planner) if planner is not None else model

    def start(self, briefing: Briefing) -> ModelSession:
        return _MPOSession(self, briefing)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "planner": self.planner.describe()}


class _MPOSession(ModelSession):
    agent: MPOAgent

    def __init__(self, agent: MPOAgent, briefing: Briefing) -> None:
        super().__init__(agent, briefing)
        self._plan: Plan | None = None

    async def act(self, observation: str) -> Decision:
        prompts, briefing = self.agent.prompts, self.briefing
        if self._plan is None:
            planner = self.agent.planner.open(prompts.render("planner", rules=briefing.rules))
            self.conversations["planner"] = planner
            self.observe(planner, observation, "plan", goal=briefing.goal)
            reply = await self.ask(planner, Provenance.PLANNER)
            self._plan = Plan(parse_plan(reply.text).steps)
            guide = str(self._plan) or "none"
            system = prompts.render("system", rules=briefing.rules, goal=briefing.goal, plan=guide)
            self.conversations["executor"] = self.agent.model.open(system)
        executor = self.conversations["executor"]
        self.observe(executor, observation)
        reply = await self.ask(executor, Provenance.EXECUTOR)
        return self.decide(parse_response(reply.text), reply.text, plan=self._plan)


class RandomAgent(Agent):
    """Plays a random admissible command; where the environment can't list any, a random word.

    Args:
        no_repeat: none that was given to the same observation before, as long as there is one, see `NaiveAgent`.
    """

    name = "random"

    def __init__(self, *, no_repeat: bool = False) -> None:
        self.no_repeat = no_repeat

    def start(self, briefing: Briefing) -> Session:
        return _RandomSession(briefing, self.no_repeat)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "no_repeat": self.no_repeat}


class _RandomSession(Session):
    def __init__(self, briefing: Briefing, no_repeat: bool) -> None:
        self._env = cast(TextEnv, briefing.env.unwrapped)
        self._rng = stable_rng("random agent", briefing.seed)
        self._given = Given() if no_repeat else None

    async def act(self, observation: str) -> Decision:
        commands = self._env.admissible_actions()
        if not commands:
            letters = "abcdefghijklmnopqrstuvwxyz"
            commands = ["".join(self._rng.choices(letters, k=5))]
        if self._given is not None:
            commands = self._given.fresh(observation, commands)
        action = self._rng.choice(commands)
        if self._given is not None:
            self._given.add(observation, action)
        return Decision(action, raw=f"Action: {action}")


class ExpertAgent(Agent):
    """Plays the environment's own expert, which sees the simulator's state: the upper bound."""

    name = "expert"

    def start(self, briefing: Briefing) -> Session:
        return _ExpertSession(briefing)


class _ExpertSession(Session):
    def __init__(self, briefing: Briefing) -> None:
        self._env = cast(TextEnv, briefing.env.unwrapped)

    async def act(self, observation: str) -> Decision:
        action = self._env.expert.action()
        return Decision(action, raw=f"Action: {action}")


class FunctionAgent(Agent):
    """A user's function as an agent.

    Args:
        function: plain or async, from the newest observation to the answer, which is read as a model's would be: a
            command alone, or ``Thought: ... Action: ...``. With a second parameter it is given the `Briefing` too.
        name: for tables and results; default the function's.
    """

    def __init__(self, function: Function, name: str | None = None) -> None:
        self.name: str = getattr(function, "__name__", type(function).__name__) if name is None else name
        self.function = function
        required = [
            parameter
            for parameter in inspect.signature(function).parameters.values()
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
            and parameter.default is parameter.empty
        ]
        if len(required) not in (1, 2):
            raise ConfigError(
                f"agent {self.name}: a function of (observation) or (observation, briefing) can be an agent; "
                f"this one takes {len(required)} arguments"
            )
        self.wants_briefing = len(required) == 2

    def start(self, briefing: Briefing) -> Session:
        return _FunctionSession(self, briefing)


class _FunctionSession(Session):
    def __init__(self, agent: FunctionAgent, briefing: Briefing) -> None:
        self._agent = agent
        self._arguments = (briefing,) if agent.wants_briefing else ()

    async def act(self, observation: str) -> Decision:
        answer: Any = self._agent.function(observation, *self._arguments)
        if inspect.isawaitable(answer):
            answer = await answer
        text: Any = answer
        if not isinstance(text, str):
            raise ConfigError(
                f"agent {self._agent.name} answered with {type(text).__name__}; an agent answers a string"
            )
        response = parse_response(text)
        # Nobody told the function of a format: a command and nothing else is as good.
        well_formed = response.strict or response.action == text.strip() != ""
        return Decision(response.action, response.thought, raw=text, well_formed=well_formed)
