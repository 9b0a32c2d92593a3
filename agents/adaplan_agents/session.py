"""What the language-model agents have in common: prompts, sampling, seeds, the record of a turn."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from adaplan_agents.models.base import Conversation, Model, Provenance
from adaplan_agents.parsing import Response
from adaplan_agents.prompting import Prompts
from adaplan_agents.types import Agent, Briefing, Decision, Session
from adaplan_envs.chat import ChatReply, Sampling, Usage
from adaplan_envs.core import stable_rng

STOP = ("<observation>", "\nObservation:")
"""Where a model begins to write the environment's part itself, its answer is over."""


class ModelAgent(Agent):
    """An agent that asks a language model.

    Args:
        model: what it asks.
        sampling: how; the default is greedy, at most 256 tokens an answer. Its seed is ignored: every call gets one of
            its own from the episode's.
        prompts: folder with prompt files that replace the built-in ones of the same name, or ``brief`` for the shortest
            that there are, for models that were trained on the suite.
    """

    kind: ClassVar[str]
    """Name of the agent and of its folder of prompts."""

    def __init__(self, model: Model, *, sampling: Sampling | None = None, prompts: str | Path | None = None) -> None:
        self.name = self.kind
        self.model = model
        sampling = sampling or Sampling()
        self.sampling = replace(sampling, stop=sampling.stop or STOP, seed=None)
        self.prompts = Prompts(self.kind, prompts)

    @abstractmethod
    def start(self, briefing: Briefing) -> ModelSession: ...

    def describe(self) -> dict[str, Any]:
        sampling = {name: getattr(self.sampling, name) for name in ("temperature", "top_p", "top_k", "max_tokens")}
        record: dict[str, Any] = {"name": self.name, "model": self.model.describe(), "sampling": sampling}
        if self.prompts.replaced:
            record["prompts"] = {name: self.prompts.texts[name] for name in self.prompts.replaced}
        return record


class ModelSession(Session):
    """One episode of a `ModelAgent`.

    Attributes:
        conversations: all of the episode's, by role; a trainer reads their `Conversation.context`.
    """

    def __init__(self, agent: ModelAgent, briefing: Briefing) -> None:
        self.agent = agent
        self.briefing = briefing
        self.conversations: dict[str, Conversation] = {}
        self._calls = 0
        self._turn: list[dict[str, Any]] = []
        self._usage = Usage()

    def sampling(self) -> Sampling:
        """Return how to sample the next answer, where the episode is now."""
        return self.agent.sampling

    async def ask(self, conversation: Conversation, role: Provenance) -> ChatReply:
        """Sample the next answer, and note it for the turn's `Decision`."""
        self._calls += 1
        number = self._calls
        # Every call has its own seed, so that equal prompts need not get equal answers, and a rerun gets the same ones.
        seed = stable_rng("call", self.briefing.seed, number).getrandbits(31)
        prompt = conversation.messages[-1]["content"]
        reply = await conversation.sample(replace(self.sampling(), seed=seed), role)
        self._usage += reply.usage
        call = {"role": str(role), "prompt": prompt, "text": reply.text, "finish_reason": reply.finish_reason}
        self._turn.append({"call": number, **call})
        return reply

    def observe(self, conversation: Conversation, observation: str, prompt: str = "observe", **values: object) -> None:
        """Add `observation`, inside the text of a prompt file, to what the model is told next."""
        before, after = self.agent.prompts.around(prompt, "observation", **values)
        conversation.user(before)
        conversation.user(observation, Provenance.OBSERVATION)
        conversation.user(after)

    def decide(self, response: Response, raw: str, **fields: Any) -> Decision:
        """Return the turn's decision, with what its calls cost, and begin the record of the next turn."""
        # Candidates are sampled at the same time: which ends first is chance, the record's order must not be.
        trace = tuple(
            {key: value for key, value in call.items() if key != "call"}
            for call in sorted(self._turn, key=lambda call: int(call["call"]))
        )
        usage, self._turn, self._usage = self._usage, [], Usage()
        return Decision(
            action=response.action,
            thought=response.thought,
            raw=raw,
            well_formed=response.strict,
            usage=usage,
            trace=trace,
            **fields,
        )

    def close(self) -> None:
        for conversation in self.conversations.values():
            conversation.close()


def sampling_from(settings: Mapping[str, Any]) -> tuple[Sampling | None, dict[str, Any]]:
    """Split agent settings into a `Sampling`, where one of its fields is among them, and the rest."""
    names = {"temperature", "top_p", "top_k", "max_tokens", "stop"}
    own = {name: value for name, value in settings.items() if name in names}
    rest = {name: value for name, value in settings.items() if name not in names}
    if not own:
        return rest.pop("sampling", None), rest
    return replace(rest.pop("sampling", None) or Sampling(), **own), rest
