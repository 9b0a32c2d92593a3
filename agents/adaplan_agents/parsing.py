"""One parser for what models write, with a verdict: forgiving for play, strict for the format reward.

Every function accepts any string, takes time linear in its length, and never raises.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_LABEL = re.compile(
    r"^[ \t>#*_`-]{0,8}(thought|action)[ \t]?\d{0,3}[ \t*_]{0,4}[:：][*_]{0,3}[ \t]*", re.IGNORECASE | re.MULTILINE
)
"""A label at the start of a line, with the Markdown that models like to put around it."""
_INLINE = re.compile(r"[ \t]Action:[ \t]*")
_FENCE = re.compile(r"```\w*")
_STEP = re.compile(r"^[ \t>*_-]{0,8}(?:step[ \t]{1,2})?(\d{1,4})[ \t*_]{0,4}[.):：][*_ \t]{0,8}(\S.*)$", re.IGNORECASE)
_STRICT_STEP = re.compile(r"(\d{1,4})\. (\S.*)")
_BULLET = re.compile(r"^[ \t]{0,8}[-*•][ \t]{1,8}(\S.*)$")
_PAIRS = {"`": "`", '"': '"', "'": "'", "[": "]", "<": ">", "*": "*", "“": "”"}


@dataclass(frozen=True, slots=True)
class Response:
    """An executor's answer.

    Attributes:
        action: the command; empty where none could be read.
        thought: the reasoning, or None.
        problem: why the format is not kept strictly; empty where it is.
    """

    action: str
    thought: str | None = None
    problem: str = ""

    @property
    def strict(self) -> bool:
        """Whether it is exactly ``Thought: ... Action: ...`` or ``Action: ...`` with one action."""
        return not self.problem


@dataclass(frozen=True, slots=True)
class PlanText:
    """A planner's answer.

    Attributes:
        steps: what it lists, in order.
        first: the number of the first one.
        problem: why the format is not kept strictly; empty where it is.
    """

    steps: tuple[str, ...] = ()
    first: int = 1
    problem: str = ""

    @property
    def strict(self) -> bool:
        """Whether it is exactly a list ``1. ...``, numbered without a gap, after ``Plan:`` or nothing."""
        return not self.problem

    def after(self, t: int) -> tuple[str, ...]:
        """Return the steps numbered ``t + 1`` and later.

        A list that begins beyond ``t + 1``, or wholly repeats numbers up to `t`, can't be meant by its numbers and is
        taken as the steps from ``t + 1`` on.
        """
        skip = t + 1 - self.first
        return self.steps[skip:] if 0 < skip < len(self.steps) else self.steps


def parse_response(text: str) -> Response:
    """Read an executor's answer: ``Thought: ...`` (optional), then ``Action: ...``.

    The forgiving reading also takes labels in any case or Markdown, quoted or fenced commands, text around them, and an
    answer that is nothing but one line. Of several actions it takes the first, since what follows a first action was
    written without seeing its observation.
    """
    body = _without_reasoning(text).strip()
    problem = _problem(text.strip())
    labels = [(match.group(1).lower(), match.start(), match.end()) for match in _LABEL.finditer(body)]
    first_action = next((label for label in labels if label[0] == "action"), None)
    inline = _INLINE.search(body, labels[0][2] if labels else 0, first_action[1] if first_action else len(body))
    if inline is not None:
        first_action = ("action", inline.start(), inline.end())
    if first_action is None:
        if labels or "\n" in body:
            return Response("", _thought(body, labels, len(body)), problem)
        return Response(_unwrap(body), None, problem)
    lines = (line.strip() for line in body[first_action[2] :].splitlines())
    line = next((line for line in lines if line and not _FENCE.fullmatch(line)), "")
    if (again := _LABEL.match(line)) is not None:
        line = line[again.end() :] if again.group(1).lower() == "action" else ""
    return Response(_unwrap(line), _thought(body, labels, first_action[1]), problem)


def parse_plan(text: str) -> PlanText:
    """Read a planner's answer: one step a line, ``1. ...``, after ``Plan:`` or nothing.

    The forgiving reading also takes ``1)``, ``Step 1:``, bullets and text around the list. Where numbers stop rising, a
    second list begins, which is left out.
    """
    body = _without_reasoning(text).strip()
    lines = [line.strip() for line in body.splitlines() if line.strip()]
    steps: list[str] = []
    first = last = 0
    for line in lines:
        match = _STEP.match(line)
        if match is None:
            continue
        number = int(match.group(1))
        if steps and number <= last:
            break
        first, last = (first if steps else number), number
        steps.append(_clean(match.group(2)))
    if not steps:
        steps = [_clean(match.group(1)) for match in map(_BULLET.match, lines) if match is not None]
        first = 1
    problem = _plan_problem(text) or ("" if steps and all(steps) else "has an empty step")
    return PlanText(tuple(step for step in steps if step), first or 1, problem)


def _problem(text: str) -> str:
    """Return what keeps `text` from being in the strict format, or ''."""
    if not text.startswith(("Thought:", "Action:")):
        return "does not begin with 'Thought:' or 'Action:'"
    if text.count("Action:") != 1:
        return "has no 'Action:'" if "Action:" not in text else "has more than one 'Action:'"
    if text.count("Thought:") > 1:
        return "has more than one 'Thought:'"
    thought, _, action = text.partition("Action:")
    if "Thought:" in action:
        return "has its 'Thought:' after the action"
    if thought and not thought.removeprefix("Thought:").strip():
        return "has an empty thought"
    if thought and not thought[-1].isspace():
        return "has no blank before 'Action:'"
    if not action.strip():
        return "has an empty action"
    if len(action.strip().splitlines()) > 1:
        return "goes on after the action"
    return ""


def _plan_problem(text: str) -> str:
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    if lines and lines[0] == "Plan:":
        lines = lines[1:]
    if not lines:
        return "has no steps"
    expected = None
    for line in lines:
        match = _STRICT_STEP.fullmatch(line)
        if match is None:
            return f"has a line that is no numbered step: {line[:40]!r}"
        number = int(match.group(1))
        if number != (number if expected is None else expected) or number < 1:
            return f"jumps in its numbers at {number}"
        expected = number + 1
    return ""


def _without_reasoning(text: str) -> str:
    """Drop what a reasoning model wrote in front of its answer."""
    return text.rpartition("</think>")[2] if "</think>" in text else text


def _thought(body: str, labels: list[tuple[str, int, int]], end: int) -> str | None:
    start = next((stop for name, begin, stop in labels if name == "thought" and begin < end), 0)
    return body[start:end].strip() or None


def _unwrap(line: str) -> str:
    """Strip blanks and matching quotes, backticks, brackets or stars around a command."""
    line = line.strip()
    for _ in range(4):
        close = _PAIRS.get(line[:1])
        if close is None or len(line) < 2 or not line.endswith(close):
            break
        line = line[1:-1].strip()
    return line


def _clean(step: str) -> str:
    return " ".join(step.replace("**", "").split())
