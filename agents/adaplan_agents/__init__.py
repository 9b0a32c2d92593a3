"""Agents that play text environments: AdaPlan, its baselines, and the language models they ask."""

from adaplan_agents.adaplan import AdaPlanAgent, PlanRequest
from adaplan_agents.baselines import (
    BriefAgent,
    ExpertAgent,
    FunctionAgent,
    MPOAgent,
    NaiveAgent,
    RandomAgent,
    ReActAgent,
)
from adaplan_agents.factory import agent_names, make_agent
from adaplan_agents.models import Model, Sampling, ScriptedModel, load_model
from adaplan_agents.parsing import parse_plan, parse_response
from adaplan_agents.plan import Plan
from adaplan_agents.session import ModelAgent, ModelSession
from adaplan_agents.types import Agent, Briefing, Decision, Session, Usage

__all__ = [
    "AdaPlanAgent",
    "Agent",
    "BriefAgent",
    "Briefing",
    "Decision",
    "ExpertAgent",
    "FunctionAgent",
    "MPOAgent",
    "Model",
    "ModelAgent",
    "ModelSession",
    "NaiveAgent",
    "Plan",
    "PlanRequest",
    "RandomAgent",
    "ReActAgent",
    "Sampling",
    "ScriptedModel",
    "Session",
    "Usage",
    "agent_names",
    "load_model",
    "make_agent",
    "parse_plan",
    "parse_response",
]
