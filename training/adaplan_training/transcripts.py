"""Conversations on file: what was said, by whom, and where there is a tokenizer the very tokens.

One JSON line is one conversation. ``messages`` are in the common chat format, each with its `Provenance`; messages of
the user that follow each other are one message, joined as they are. The answers of provenance ``planner`` and
``executor`` are what can be trained. ``docs/data.md`` lists the keys.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from adaplan_agents.models import ChatReply, Conversation, Model, Provenance, Sampling
from adaplan_agents.models.context import SAMPLED, Context
from adaplan_agents.models.tokens import Vocabulary
from adaplan_envs.errors import ConfigError, OutputError

ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of a conversation as the model read and wrote them.

    Attributes:
        ids: all of them.
        spans: ``(start, stop, provenance)``; they cover every token once.
        vocabulary: whose tokens these are, see `fingerprint`.
    """

    ids: tuple[int, ...]
    spans: tuple[tuple[int, int, Provenance], ...]
    vocabulary: str


@dataclass(frozen=True, slots=True)
class Transcript:
    """One conversation.

    Attributes:
        messages: ``{"role", "content", "provenance"}``; an answer that the token limit cut has ``"finish": "length"``.
        about: what else the line holds: ``env_id``, ``task_id``, ``agent``, ``success`` ...
        tokens: the exact tokens, where they are known.
    """

    messages: tuple[dict[str, str], ...]
    about: dict[str, Any]
    tokens: Tokens | None = None

    @property
    def trainable(self) -> bool:
        """Whether it holds an answer of the planner or the executor."""
        return any(message.get("provenance") in SAMPLED for message in self.messages)

    def to_json(self) -> str:
        """Return the line, without the newline."""
        record: dict[str, Any] = {**self.about, "messages": list(self.messages)}
        if self.tokens is not None:
            record |= {"ids": self.tokens.ids, "spans": self.tokens.spans, "vocabulary": self.tokens.vocabulary}
        line = json.dumps(record, ensure_ascii=False)
        try:
            line.encode()
        except UnicodeEncodeError:  # half a surrogate pair in a model's answer
            line = json.dumps(record)
        return line

    @classmethod
    def from_json(cls, line: str) -> Self:
        """Return the conversation of a line. A chat file without provenance is all right: its answers are trained.

        Raises:
            ValueError: the line is no conversation; the message says why.
        """
        record = json.loads(line)
        if not isinstance(record, dict) or not isinstance(record.get("messages"), list):
            raise ValueError('a line must be an object with "messages", a list')
        messages = tuple(_message(number, message) for number, message in enumerate(record.pop("messages"), 1))
        _check_order([message["role"] for message in messages])
        ids, spans, vocabulary = (record.pop(key, None) for key in ("ids", "spans", "vocabulary"))
        tokens = None
        if ids is not None:
            try:
                tokens = Tokens(tuple(ids), tuple((a, b, Provenance(name)) for a, b, name in spans), str(vocabulary))
            except (TypeError, ValueError) as error:
                raise ValueError(f'"ids" without usable "spans" ({error})') from None
            edges = [edge for start, stop, _ in tokens.spans for edge in (start, stop)]
            if edges[::2] != [0, *edges[1:-1:2]] or edges[-1:] != [len(tokens.ids)]:
                raise ValueError('"spans" do not cover "ids" one after the other')
        return cls(messages, record, tokens)


def _message(number: int, message: Any) -> dict[str, str]:
    if not isinstance(message, dict) or message.get("role") not in ROLES:
        raise ValueError(f"message {number} has no role of {', '.join(ROLES)}")
    if not isinstance(message.get("content"), str):
        raise ValueError(f"message {number} has no content, or one that is no text")
    default = Provenance.EXECUTOR if message["role"] == "assistant" else Provenance.GIVEN
    try:
        provenance = Provenance(message.get("provenance", default))
    except ValueError:
        valid = ", ".join(Provenance)
        raise ValueError(f"message {number} has provenance {message['provenance']!r}; valid: {valid}") from None
    if message["role"] != "assistant" and provenance in SAMPLED:
        raise ValueError(f"message {number} is the {message['role']}'s, but its provenance is {provenance}")
    kept = {"role": message["role"], "content": message["content"], "provenance": str(provenance)}
    return {**kept, "finish": "length"} if message.get("finish") == "length" else kept


def _check_order(roles: Sequence[str]) -> None:
    for number, role in enumerate(roles):
        before = roles[number - 1] if number else None
        if role == "system" and number:
            raise ValueError(f"message {number + 1} is a system message; only the first can be one")
        if role == "assistant" and before != "user":
            raise ValueError(f"message {number + 1} is an answer, but nothing of the user's stands in front of it")


class RecordedConversation(Conversation):
    """A conversation that keeps what was said with its provenance.

    Attributes:
        model: where it was opened.
        record: the messages, as in a `Transcript`.
    """

    def __init__(self, model: RecordingModel, system: str, inner: Conversation | None) -> None:
        super().__init__(system)
        self.model = model
        self.inner = inner
        self.record: list[dict[str, str]] = []
        if system:
            self.record.append({"role": "system", "content": system, "provenance": str(Provenance.GIVEN)})

    @property
    def context(self) -> Context | None:
        return None if self.inner is None else self.inner.context

    def _on_user(self, text: str, provenance: Provenance) -> None:
        if self.inner is not None:
            self.inner.user(text, provenance)
        last = self.record[-1] if self.record else {}
        if last.get("role") == "user" and last["provenance"] == provenance:
            last["content"] += text
        elif text:
            self.record.append({"role": "user", "content": text, "provenance": str(provenance)})

    def _on_assistant(self, text: str) -> None:
        if self.inner is not None:
            self.inner.assistant(text)
        self.record.append({"role": "assistant", "content": text, "provenance": str(Provenance.GIVEN)})

    async def _sample(self, sampling: Sampling, provenance: Provenance) -> ChatReply:
        reply, provenance = await self.model.answer(self, sampling, provenance)
        message = {"role": "assistant", "content": reply.text, "provenance": str(provenance)}
        self.record.append({**message, "finish": "length"} if reply.finish_reason == "length" else message)
        return reply

    def _fork(self) -> Self:
        twin = type(self)(self.model, "", None if self.inner is None else self.inner.fork())
        twin.record = [dict(message) for message in self.record]
        return twin

    def close(self) -> None:
        if self.inner is not None:
            self.inner.close()


Answer = Callable[[RecordedConversation, Sampling, Provenance], Awaitable[tuple[ChatReply, Provenance]]]


class RecordingModel(Model):
    """A model whose conversations are recorded.

    Args:
        name: who answers.
        answer: gives the answer to a conversation, and its provenance; ``given`` for one that must not be trained.
        inner: the model that `answer` asks, if any; each conversation has one of its own with it, as its ``inner``.
    """

    def __init__(self, name: str, answer: Answer, inner: Model | None = None) -> None:
        self.name = name
        self.answer = answer
        self.inner = inner

    def open(self, system: str = "") -> RecordedConversation:
        return RecordedConversation(self, system, None if self.inner is None else self.inner.open(system))

    @classmethod
    def around(cls, model: Model) -> Self:
        """Return `model` with a record of its conversations."""

        async def ask(
            conversation: RecordedConversation, sampling: Sampling, provenance: Provenance
        ) -> tuple[ChatReply, Provenance]:
            assert conversation.inner is not None
            return await conversation.inner.sample(sampling, provenance), provenance

        return cls(model.name, ask, model)


def transcript(conversation: RecordedConversation, about: dict[str, Any], vocabulary: str | None) -> Transcript:
    """Return what was said so far; with its tokens where `vocabulary`, its fingerprint, is known."""
    tokens = None
    context = conversation.context
    if context is not None and vocabulary is not None:
        spans = tuple((span.start, span.stop, span.provenance) for span in context.spans)
        tokens = Tokens(context.ids, spans, vocabulary)
    return Transcript(tuple(conversation.record), about, tokens)


def fingerprint(vocabulary: Vocabulary) -> str:
    """Return what tells a tokenizer with its chat template from others: equal where conversations get equal tokens."""
    backend = getattr(vocabulary.tokenizer, "backend_tokenizer", None)
    if backend is None:
        kept: Any = sorted(vocabulary.tokenizer.get_vocab().items())
    else:
        parts = json.loads(backend.to_str())
        kept = [parts[name] for name in ("added_tokens", "normalizer", "pre_tokenizer", "model")]
    names = ("head", "system", "first_user", "generate", "next_user")
    frames = [vocabulary.frame(name) for name in (names if vocabulary.system is not None else (names[0], *names[3:]))]
    return hashlib.sha256(json.dumps([kept, frames]).encode()).hexdigest()[:16]


def read_transcripts(path: Path) -> Iterator[Transcript]:
    """Yield the conversations of a file, one at a time.

    Raises:
        ConfigError: there is no such file, or a line is damaged.
    """
    try:
        with path.open("rb") as file:  # bytes: a U+2028 in an answer is no line end
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                try:
                    yield Transcript.from_json(line.decode())
                except ValueError as error:
                    raise ConfigError(f"{path}, line {number}: {error}") from None
    except OSError as error:
        raise ConfigError(f"can't read {path}: {error.strerror}") from None


def write_transcripts(path: Path, transcripts: Iterable[Transcript]) -> int:
    """Write a file as a whole or not at all, and return the number of its lines.

    Raises:
        ConfigError: the file is there already.
        OutputError: it can't be written.
    """
    if path.exists():
        raise ConfigError(f"{path} is there already; choose another --out or delete it")
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    count = 0
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("w", encoding="utf-8") as file:
            for each in transcripts:
                file.write(each.to_json() + "\n")
                count += 1
        temporary.replace(path)
    except OSError as error:
        raise OutputError(f"can't write {path}: {error.strerror}") from error
    finally:
        with suppress(OSError):
            temporary.unlink()
    return count
