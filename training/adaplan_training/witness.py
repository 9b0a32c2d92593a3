"""An agent that is watched: what an episode's session holds is wanted after the episode."""

from __future__ import annotations

from adaplan_agents.types import Agent, Briefing, Session


class Witness(Agent):
    """An agent for one episode that remembers its session."""

    def __init__(self, agent: Agent) -> None:
        self.agent, self.name = agent, agent.name
        self.session: Session | None = None

    def start(self, briefing: Briefing) -> Session:
        self.session = self.agent.start(briefing)
        return self.session
