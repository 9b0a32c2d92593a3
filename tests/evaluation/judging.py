"""A judge's model that reads the prompt as a perfect one would, and errs at a known rate."""

from __future__ import annotations

import json
import re
from typing import Any

from adaplan_agents.models import ScriptedModel
from adaplan_envs.core import stable_rng
from adaplan_evaluation.judges.reading import adherence

SOLVED = ("You have reached the goal.", "0 left")


def careful(error_rate: float = 0.0) -> ScriptedModel:
    """Return a model that judges MAZE (and the counter of `games`) rightly, but for a share of its answers."""

    def answer(messages: list[dict[str, str]]) -> str:
        prompt = messages[1]["content"]
        rng = stable_rng("judge's error", prompt)
        verdict = _verdict(prompt)
        if rng.random() < error_rate:
            verdict = {"score": (verdict["score"] + rng.choice([1, 2])) % 3} if "score" in verdict else {}
        return f"Let me see.\n{json.dumps({'reason': 'as it looks', **verdict})}"

    return ScriptedModel(answer, "careful")


def _verdict(prompt: str) -> dict[str, Any]:
    if "<trajectory>" in prompt:
        actions = len(re.findall(r"<action number=", prompt))
        reference = prompt.split("<reference>")[1].split("</reference>")[0]
        best = len(re.findall(r"^\d+\. ", reference, re.M))
        final = prompt.split("</trajectory>")[0]
        return {"score": 0 if not any(sign in final for sign in SOLVED) else 2 if actions <= int(1.5 * best) else 1}
    if "<actions>" in prompt:
        pairs = re.findall(r"^\d+\. step: (.*)\n   action: (.*)$", prompt, re.M)
        return {"scores": [adherence("maze", step, action)[0] for step, action in pairs]}
    if "<responses>" in prompt:
        return {"score": int(all(text.startswith("Action: ") for text in re.findall(r'">\n(.*)\n</resp', prompt)))}
    good = "Move nowhere" not in prompt
    return {"correctness": 5 if good else 2, "executability": 5 if good else 3, "standardisation": 5}


RIGHT = careful().replies
