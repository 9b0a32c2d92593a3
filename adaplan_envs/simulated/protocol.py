"""What passes between an environment and its simulator: actions in, JSON answers out."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from adaplan_envs.chat_types import object_schema

LONGEST_ACTION = 1000
"""Characters of an action that the simulator is told; no command of any environment comes near."""
LONGEST_OBSERVATION = 8000
"""Characters of an observation; what is longer is a simulator that has lost the thread."""

ANSWER_SCHEMA = object_schema(
    {
        "notes": {"type": "string", "maxLength": 800},
        "valid": {"type": "boolean"},
        "observation": {"type": "string", "minLength": 1, "maxLength": 3000},
        "done": {"type": "boolean"},
        "success": {"type": "boolean"},
    }
)
"""JSON schema of an answer, for models that can be held to one; bounded, for a small one may find no end."""

_ACTION = re.compile(r"Action (\d+) of \d+: (\".*\")", re.S)
_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


class UnusableAnswer(Exception):
    """The simulator's answer can't be used. `kind` is for counting; the message says to the simulator what is wrong."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Answer:
    """What the simulator says of one action; the fields are those of its JSON object."""

    notes: str
    valid: bool
    observation: str
    done: bool
    success: bool

    def to_json(self) -> str:
        """Return the answer as the simulator is expected to write it."""
        said = {
            "notes": self.notes,
            "valid": self.valid,
            "observation": self.observation,
            "done": self.done,
            "success": self.success,
        }
        return json.dumps(said, ensure_ascii=False)


def write_action(number: int, limit: int, action: str) -> str:
    """Return the player's message; the action is quoted, so that it can't pass for anything else."""
    text = action if len(action) <= LONGEST_ACTION else f"{action[:LONGEST_ACTION]}..."
    return f"Action {number} of {limit}: {json.dumps(text)}"


def read_action(message: str) -> str | None:
    """Return the action of a player's message, or None where it is no such message."""
    match = _ACTION.fullmatch(message)
    return str(json.loads(match[2])) if match else None


def read_answer(text: str, cut: bool = False) -> tuple[Answer, bool]:
    """Return the answer that `text` holds, and whether its JSON had to be repaired.

    Prose and code fences around the object are passed over; slips such as a trailing comma, single quotes or a missing
    brace are repaired. An answer that was cut at the token limit is not: nobody knows what it lacks.

    Raises:
        UnusableAnswer: there is no such object, or one of its fields is missing or of the wrong type.
    """
    found, repaired = _read_object(text, cut)
    missing = [key for key in ("valid", "observation", "done", "success") if key not in found]
    if missing:
        raise UnusableAnswer("malformed", f"your JSON object lacks {', '.join(missing)}.")
    observation = found["observation"]
    if not isinstance(observation, str) or not observation.strip():
        raise UnusableAnswer("malformed", "observation must be a text that is not empty.")
    if len(observation) > LONGEST_OBSERVATION:
        raise UnusableAnswer("malformed", f"observation must not be longer than {LONGEST_OBSERVATION} characters.")
    notes = found.get("notes", "")
    if not isinstance(notes, str):
        notes = json.dumps(notes, ensure_ascii=False)
    valid, done, success = (_truth(key, found[key]) for key in ("valid", "done", "success"))
    return Answer(notes, valid, observation, done, success), repaired


def _read_object(text: str, cut: bool) -> tuple[dict[str, Any], bool]:
    start = text.find("{")
    if start < 0:
        raise UnusableAnswer("malformed", "there was no JSON object in it.")
    try:
        found, _ = json.JSONDecoder().raw_decode(text, start)
        return found, False
    except ValueError:
        pass
    if cut:
        raise UnusableAnswer("malformed", "it was too long and broke off; write shorter notes.")
    import json_repair

    try:
        mended = json_repair.loads(text[start:])
    except ValueError:  # nested too deeply
        mended = None
    if isinstance(mended, list):  # it takes what follows the object for a second one
        mended = next((item for item in mended if isinstance(item, dict)), None)
    if not isinstance(mended, dict):
        raise UnusableAnswer("malformed", "it was not valid JSON.")
    return mended, True


def _truth(key: str, value: Any) -> bool:
    found = _TRUTH.get(str(value).strip().lower())
    if found is None:
        raise UnusableAnswer("malformed", f"{key} must be true or false.")
    return found
