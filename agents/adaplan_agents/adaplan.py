"""AdaPlan: a global planner and an executor, the plan revised as the episode unfolds (PilotRL paper, section 3)."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from adaplan_agents.models import load_model
from adaplan_agents.models.base import Conversation, Model, Provenance
from adaplan_agents.parsing import PlanText, parse_plan, parse_response
from adaplan_agents.plan import Plan
from adaplan_agents.session import ModelAgent, ModelSession
from adaplan_agents.types import Briefing, Decision
from adaplan_envs import TextEnv
from adaplan_envs.chat import Sampling
from adaplan_envs.errors import ConfigError, NoPlanError, UnknownNameError

REPLAN = ("every", "deviation")


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What a plan source of the user's is given.

    Attributes:
        briefing: the episode's.
        observation: the newest one.
        actions: what was played so far.
        plan: the plan in force; its first `Plan.done` steps are history.
    """

    briefing: Briefing
    observation: str
    actions: tuple[str, ...]
    plan: Plan


PlanSource = Callable[[PlanRequest], Sequence[str] | Awaitable[Sequence[str]]]
"""From a request to the steps from ``plan.done + 1`` on."""
Selector = Callable[[PlanRequest, Sequence[Plan]], int | Awaitable[int]]
"""From a request and the candidate plans to the position of the best one."""


class AdaPlanAgent(ModelAgent):
    """Plans the whole way to the goal, follows the plan step by step, and revises it after what it observes.

    Step i of the plan guides action i. After t actions the planner proposes the steps from t + 1 on; those up to t stay
    as they are (Eq. 1). By default one model plays both roles in **one conversation** (unified): what the planner
    thought the executor has read, no token is read twice, and the episode is one training sequence. With `planner` the
    roles are separate models with a conversation each (isolated).

    Args:
        model: the model of both roles, or of the executor where `planner` is given.
        planner: another model, or its spec string, for the planner's role.
        plan_source: where plans come from instead of the model, while everything else stays as in the unified mode, the
            plan standing where the model's own would (the paper's stage 1): ``expert`` (the environment's own), a
            `Model` or its spec string, or a function, see `PlanSource`.
        replan: ``every`` (after each observation, the paper), a number k (after every k-th action), or ``deviation``
            (after an action that shares no word with its step, an unreadable answer, or an observation equal to the
            last one). Where the plan is used up it is always revised.
        candidates: how many plans to sample each time, of which one is selected and kept in the conversation.
        select: selects among them, see `Selector`; by default the planner is asked, in a branch that is dropped.
        sampling: how to ask, see `ModelAgent`.
        prompts: folder with prompt files that replace the built-in ones.

    Raises:
        ConfigError: settings that contradict each other or are out of range.
    """

    kind = "adaplan"

    def __init__(
        self,
        model: Model,
        *,
        planner: Model | str | None = None,
        plan_source: Model | str | PlanSource | None = None,
        replan: str | int = "every",
        candidates: int = 1,
        select: Selector | None = None,
        sampling: Sampling | None = None,
        prompts: str | Path | None = None,
    ) -> None:
        super().__init__(model, sampling=sampling, prompts=prompts)
        if planner is not None and plan_source is not None:
            raise ConfigError("planner and plan_source both say where plans come from; give one of them")
        if isinstance(replan, int) and (replan < 1 or isinstance(replan, bool)):
            raise ConfigError(f"replan is {replan}; a number of actions must be 1 or more")
        if isinstance(replan, str) and replan not in REPLAN:
            raise UnknownNameError("replan policy", replan, REPLAN)
        if candidates < 1:
            raise ConfigError(f"candidates is {candidates}; it must be 1 or more")
        if candidates > 1 and self.sampling.temperature == 0:
            raise ConfigError(
                f"candidates={candidates} at temperature 0 would all be equal; set a temperature such as 1"
            )
        self.planner = load_model(planner) if isinstance(planner, str) else planner
        external = isinstance(plan_source, str) and plan_source != "expert"
        self.plan_source = load_model(cast(str, plan_source)) if external else plan_source
        if candidates > 1 and self.plan_source is not None and not isinstance(self.plan_source, Model):
            raise ConfigError("candidates are sampled from a model; this plan_source gives one plan")
        self.replan = replan
        self.candidates = candidates
        self.select = select

    def start(self, briefing: Briefing) -> ModelSession:
        return _AdaPlanSession(self, briefing)

    def describe(self) -> dict[str, Any]:
        record = {**super().describe(), "replan": self.replan, "candidates": self.candidates}
        record["mode"] = "unified" if self.planner is None else "isolated"
        if self.planner is not None:
            record["planner"] = self.planner.describe()
        if self.plan_source is not None:
            source = self.plan_source
            named = getattr(source, "__qualname__", str(source))
            record["plan_source"] = source.describe() if isinstance(source, Model) else named
        return record


class _AdaPlanSession(ModelSession):
    agent: AdaPlanAgent

    def __init__(self, agent: AdaPlanAgent, briefing: Briefing) -> None:
        super().__init__(agent, briefing)
        values = {"rules": briefing.rules, "goal": briefing.goal}
        own = agent.planner is None
        self.conversations["executor"] = agent.model.open(
            agent.prompts.render("system" if own else "executor", **values)
        )
        apart = agent.planner or (agent.plan_source if isinstance(agent.plan_source, Model) else None)
        if apart is not None:
            self.conversations["planner"] = apart.open(agent.prompts.render("planner", **values))
        self._plan = Plan()
        self._since = 0  # actions since the last revision
        self._actions: list[str] = []
        self._last_observation = ""

    async def act(self, observation: str) -> Decision:
        due = self._due(observation)
        executor, planner = self.conversations["executor"], self.conversations.get("planner")
        prompts = self.agent.prompts
        self.observe(executor, observation)
        if planner is not None:
            if self._actions:
                planner.user(prompts.render("played", action=self._actions[-1]) + "\n")
            self.observe(planner, observation)
            planner.user("\n\n")
        executor.user("\n\n")
        if due:
            request = PlanRequest(self.briefing, observation, tuple(self._actions), self._plan)
            await self._revise(request)
            self._since = 0
            executor = self.conversations["executor"]  # another branch now, where candidates were sampled
            if self.agent.planner is not None:
                executor.user(prompts.render("guide", plan=self._plan.lines(self._plan.done + 1)) + "\n\n")
        step, number = self._plan.current, self._plan.done + 1
        name = "act" if step is not None else "act_free"
        executor.user(prompts.render(name, step=step, number=number))
        reply = await self.ask(executor, Provenance.EXECUTOR)
        response = parse_response(reply.text)
        decision = self.decide(response, reply.text, plan=self._plan)
        self._actions.append(response.action)
        self._last_observation = observation
        self._deviated = not response.action or not (_words(response.action) & _words(step or ""))
        self._since += 1
        self._plan = self._plan.advance()
        return decision

    def _due(self, observation: str) -> bool:
        if not self._actions or self._plan.current is None or self.agent.replan == "every":
            return True
        if isinstance(self.agent.replan, int):
            return self._since >= self.agent.replan
        return self._deviated or observation == self._last_observation

    async def _revise(self, request: PlanRequest) -> None:
        """Replace the plan's later steps by those that the planner proposes; an unreadable answer changes nothing."""
        agent, plan = self.agent, self._plan
        asked = "planner" if "planner" in self.conversations else "executor"
        name = "replan" if request.actions else "plan"
        order = agent.prompts.render(name, next=plan.done + 1)
        if "planner" in self.conversations or agent.plan_source is None:
            self.conversations[asked].user(order)
            proposed = await self._ask_plan(asked, request)
        else:
            proposed = await self._source_plan(request)
        if proposed:
            self._plan = plan.revise(plan.done, proposed)
        if agent.plan_source is not None:  # as if the model had written it: the executor sees what it will see later
            executor = self.conversations["executor"]
            executor.user(order)
            executor.assistant(self._plan.lines(self._plan.done + 1) or agent.prompts.render("no_plan"))

    async def _source_plan(self, request: PlanRequest) -> Sequence[str]:
        source = self.agent.plan_source
        if source == "expert":
            try:
                return cast(TextEnv, self.briefing.env.unwrapped).expert.plan()
            except NoPlanError:
                return ()
        found = cast(PlanSource, source)(request)
        return await found if inspect.isawaitable(found) else found

    async def _ask_plan(self, name: str, request: PlanRequest) -> Sequence[str]:
        """Sample the candidates, keep the branch of the selected one, and return its steps."""
        conversation = self.conversations[name]
        if self.agent.candidates == 1:
            reply = await self.ask(conversation, Provenance.PLANNER)
            return parse_plan(reply.text).after(request.plan.done)
        before = self._calls
        branches = [conversation.fork() for _ in range(self.agent.candidates)]
        kept = 0
        try:
            replies = await asyncio.gather(*(self.ask(branch, Provenance.PLANNER) for branch in branches))
            texts = [parse_plan(reply.text) for reply in replies]
            kept = await self._select(conversation, request, texts)
        finally:
            for number, branch in enumerate([*branches, conversation]):
                if number != kept:
                    branch.close()
            self.conversations[name] = branches[kept]
        for call in self._turn:
            if 0 <= call["call"] - before - 1 < len(branches) and call["call"] - before - 1 != kept:
                call["role"] = "candidate"
        return texts[kept].after(request.plan.done)

    async def _select(self, conversation: Conversation, request: PlanRequest, texts: Sequence[PlanText]) -> int:
        done = request.plan.done
        plans = [request.plan.revise(done, text.after(done)) for text in texts]
        if self.agent.select is not None:
            found = self.agent.select(request, plans)
            choice = await found if inspect.isawaitable(found) else found
            if not 0 <= choice < len(plans):
                raise ConfigError(f"select returned {choice}; there are candidates 0 to {len(plans) - 1}")
            return choice
        best = next((n for n, text in enumerate(texts) if text.steps and text.strict), None)
        best = best if best is not None else next((n for n, text in enumerate(texts) if text.steps), 0)
        if len({plan.steps for plan in plans if plan.remaining}) < 2:
            return best
        branch = conversation.fork()
        try:
            listed = "\n\n".join(f"Plan {n}:\n{plan.lines(done + 1) or '(none)'}" for n, plan in enumerate(plans, 1))
            branch.user("\n\n" + self.agent.prompts.render("select", plans=listed, count=len(plans)))
            reply = await self.ask(branch, Provenance.PLANNER)
            self._turn[-1]["role"] = "selector"
        finally:
            branch.close()
        number = re.search(r"\d+", reply.text)
        choice = int(number.group()[:9]) - 1 if number else best
        return choice if 0 <= choice < len(plans) and texts[choice].steps else best


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))
