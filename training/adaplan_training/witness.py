"""An agent that is watched: what an episode's session holds is wanted after the episode."""

from __future__ import annotations

from typing import Any

from adaplan_agents.types import Agent, Briefing, Decision, Session


class Witness(Agent):
    """An agent for one episode that remembers its session."""

    def __init__(self, agent: Agent) -> None:
        self.agent, self.name = agent, agent.name
        self.session: Session | None = None

    def start(self, briefing: Briefing) -> Session:
        self.session = self.agent.start(briefing)
        return self.session


class TurnWitness(Witness):
    """One that also notes how long each conversation was after each turn."""

    def __init__(self, agent: Agent) -> None:
        super().__init__(agent)
        self.turn_ends: list[dict[str, int]] = []

    def start(self, briefing: Briefing) -> Session:
        return _Watched(super().start(briefing), self.turn_ends)


class _Watched(Session):
    def __init__(self, session: Session, turn_ends: list[dict[str, int]]) -> None:
        self.session, self.turn_ends = session, turn_ends

    async def act(self, observation: str) -> Decision:
        decision = await self.session.act(observation)
        talks: dict[str, Any] = getattr(self.session, "conversations", {})
        self.turn_ends.append({name: len(talk.context or ()) for name, talk in talks.items()})
        return decision

    def close(self) -> None:
        self.session.close()
