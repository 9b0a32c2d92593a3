"""The LLM judge: any chat model, asked with a reference trajectory, answering in JSON."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from adaplan_agents.models import Model, load_model
from adaplan_agents.prompting import Prompts
from adaplan_envs.chat import Chat, Message, Sampling, Usage, object_schema
from adaplan_envs.errors import ModelAccessError, ModelError
from adaplan_evaluation.judges.arena import Arena
from adaplan_evaluation.judges.plan_quality import remaining, written_plans
from adaplan_evaluation.judges.types import PLAN_PARTS, Judge, Judgement, failed, scored, unjudged
from adaplan_evaluation.types import Episode, Turn

_CLIP = 1_500
"""Characters of one observation or response that are shown; the middle of a longer one is left out."""
_LONGEST_REASON = 400
"""Characters; one sentence is asked for."""
_NOBODY_KNOWS = "(none known)"


@dataclass(frozen=True, slots=True)
class _Question:
    """What to ask for one term, which fields the answer's JSON has, and how to read them."""

    prompt: str
    fields: dict[str, Any]
    """JSON schemas; a reason comes before them."""
    read: Callable[[dict[str, Any]], tuple[float, dict[str, float]]]
    """Raises ValueError with what is wrong, in words that the model is told."""


class LLMJudge(Judge):
    """Asks a language model, once a term; an answer that can't be used is asked for a second time.

    The model sees rules, goal, a good player's commands and what happened, but not what the simulator made of it.

    Args:
        model: anything with ``async chat(messages, sampling)``, or a spec string, whose model is closed by `aclose`.
        env_settings: of the environments in which the episodes were played; the reference is played in real ones.
        prompts: folder with prompt files that replace the built-in ones of the same name.
        sampling: how to ask; greedy by default.
        cache: folder for the answers of a server, so that judging again costs nothing; with a spec string only.

    Raises:
        UnknownNameError: no such model, or it runs here and takes no cache.
        ModelAccessError: there is no access to the model.

    Attributes:
        usage: what all answers cost so far.
        failures: how often which kind of failure happened: ``asked again``, ``unusable``, ``model``.
    """

    def __init__(
        self,
        model: Chat | str,
        *,
        env_settings: Mapping[str, Any] | None = None,
        prompts: str | Path | None = None,
        sampling: Sampling | None = None,
        cache: str | Path | None = None,
    ) -> None:
        self._prompts = Prompts("judge", prompts, "adaplan_evaluation")
        self._arena = Arena(env_settings)
        self._model: Chat = (
            load_model(model, **({} if cache is None else {"cache": cache})) if isinstance(model, str) else model
        )
        self._owned = isinstance(model, str)
        self.name = str(getattr(self._model, "name", None) or getattr(self._model, "model", type(model).__name__))
        self.sampling = sampling or Sampling(max_tokens=1024)
        self.usage = Usage()
        self.failures: Counter[str] = Counter()

    async def judge(self, episode: Episode, terms: Sequence[str]) -> dict[str, Judgement]:
        found = await asyncio.gather(*(self._judge(episode, term) for term in terms))
        return dict(zip(terms, found, strict=True))

    def describe(self) -> dict[str, Any]:
        describe = getattr(self._model, "describe", None)
        record: dict[str, Any] = {"name": self.name, "model": describe() if callable(describe) else self.name}
        if self._prompts.replaced:
            record["prompts"] = {name: self._prompts.texts[name] for name in self._prompts.replaced}
        return record

    async def aclose(self) -> None:
        self._arena.close()
        if self._owned and isinstance(self._model, Model):
            await self._model.aclose()

    async def _judge(self, episode: Episode, term: str) -> Judgement:
        if (known := unjudged(episode, term)) is not None:
            return known
        question = self._question(episode, term)
        messages: list[Message] = [
            {"role": "system", "content": self._prompts.render("system")},
            {"role": "user", "content": question.prompt},
        ]
        reason = {"type": "string", "maxLength": _LONGEST_REASON}
        sampling = replace(self.sampling, json_schema=object_schema({"reason": reason, **question.fields}))
        problem = ""
        for attempt in range(2):
            if attempt:
                self.failures["asked again"] += 1
                messages.append({"role": "user", "content": self._prompts.render("retry", problem=problem)})
            try:
                reply = await self._model.chat(messages, sampling)
            except ModelAccessError:
                raise
            except ModelError as error:
                self.failures["model"] += 1
                return failed(f"the judge's model gave no answer: {error}")
            self.usage += reply.usage
            try:
                answer = _json(reply.text)
                score, parts = question.read(answer)
            except ValueError as error:
                problem = str(error)
                messages.append({"role": "assistant", "content": reply.text})
                continue
            return scored(term, score, str(answer.get("reason", "")), parts)
        self.failures["unusable"] += 1
        return failed(f"the judge gave no usable answer, asked twice: {problem}")

    def _question(self, episode: Episode, term: str) -> _Question:
        def ask(**values: object) -> str:
            common = {"rules": self._arena.rules(episode.env_id), "goal": episode.goal} if term != "format" else {}
            return self._prompts.render(term, **common, **values)

        if term == "format":
            answers = enumerate(episode.turns, 1)
            listed = "\n".join(f'<response number="{n}">\n{_clip(turn.raw)}\n</response>' for n, turn in answers)
            return _choice(ask(responses=listed), 0, 1)
        if term == "e2e":
            prompt = ask(reference=self._reference(episode), trajectory=_trajectory(episode))
            return _choice(prompt, 0, 1, 2)
        if term == "adherence":
            return _adherence(episode, ask)
        plans = "\n".join(
            f"<observation>\n{_clip(episode.turns[plan.turn].observation)}\n</observation>\n"
            f"<plan>\n{_clip(plan.text or _numbered(plan.steps) or '(none)')}\n</plan>"
            for plan in written_plans(episode)
        )
        marks = {name: {"enum": [1, 2, 3, 4, 5]} for name in PLAN_PARTS}
        return _Question(ask(reference=self._reference(episode), plans=plans), marks, _read_marks)

    def _reference(self, episode: Episode) -> str:
        commands = self._arena.expert_commands(episode)
        return _NOBODY_KNOWS if commands is None else _numbered(commands)


def _adherence(episode: Episode, ask: Callable[..., str]) -> _Question:
    planned = [(number, turn) for number, turn in enumerate(episode.turns, 1) if turn.plan is not None]
    asked = [(number, turn) for number, turn in planned if turn.plan_step is not None]
    listed = "\n".join(
        f"{at}. step: {_clip(remaining(turn)[0])}\n   action: {_said(turn)}" for at, (_, turn) in enumerate(asked, 1)
    )

    def read(answer: dict[str, Any]) -> tuple[float, dict[str, float]]:
        scores = answer.get("scores")
        if not isinstance(scores, list) or len(scores) != len(asked):
            raise ValueError(f"'scores' must be a list of {len(asked)} numbers")
        parts = {str(number): 0.0 for number, _ in planned}  # an action without a step is in line with none
        for (number, _), score in zip(asked, scores, strict=True):
            parts[str(number)] = _number({"scores": score}, "scores", (0, 1, 2))
        return fmean(parts.values()), parts

    scores = {"type": "array", "items": {"enum": [0, 1, 2]}, "minItems": len(asked), "maxItems": len(asked)}
    return _Question(ask(actions=listed, count=len(asked)), {"scores": scores}, read)


def _choice(prompt: str, *valid: int) -> _Question:
    """Return a question whose answer is one score out of `valid`."""
    return _Question(prompt, {"score": {"enum": list(valid)}}, lambda answer: (_number(answer, "score", valid), {}))


def _read_marks(answer: dict[str, Any]) -> tuple[float, dict[str, float]]:
    parts = {name: _number(answer, name, (1, 2, 3, 4, 5)) for name in PLAN_PARTS}
    return sum(parts.values()), parts


def _number(answer: Mapping[str, Any], key: str, valid: Sequence[int]) -> float:
    value = answer.get(key)
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value.strip()[:9])
    if not isinstance(value, int | float) or isinstance(value, bool) or value not in valid:
        raise ValueError(f"{key!r} must be one of {', '.join(map(str, valid))}")
    return float(value)


def _json(text: str) -> dict[str, Any]:
    """Return the last JSON object in an answer, whatever stands around it."""
    body = text.rpartition("</think>")[2]
    decoder, at = json.JSONDecoder(), body.find("{")
    found: dict[str, Any] | None = None
    while at >= 0:
        try:
            value, end = decoder.raw_decode(body, at)
            found, at = value, body.find("{", end)
        except (ValueError, RecursionError):
            at = body.find("{", at + 1)
    if found is None:
        raise ValueError("it holds no JSON object")
    return found


def _trajectory(episode: Episode) -> str:
    lines = []
    for number, turn in enumerate(episode.turns, 1):
        lines.append(f"<observation>\n{_clip(turn.observation)}\n</observation>")
        lines.append(f'<action number="{number}">{_said(turn)}</action>')
    lines.append(f"<observation>\n{_clip(episode.observation)}\n</observation>")
    return "\n".join(lines)


def _said(turn: Turn) -> str:
    return _clip(turn.action) or "(no command could be read from the agent's answer)"


def _numbered(steps: Sequence[str]) -> str:
    return "\n".join(f"{number}. {step}" for number, step in enumerate(steps, 1))


def _clip(text: str) -> str:
    return text if len(text) <= _CLIP else f"{text[: _CLIP // 2]} [...] {text[-_CLIP // 2 :]}"
