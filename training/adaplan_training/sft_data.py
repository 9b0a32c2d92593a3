"""Files to imitate, as token sequences: demonstrations, recorded runs, and chats.

Conversations that carry the tokens of the very tokenizer that is trained are taken token by token. All others are
spoken into a `TokenConversation` once more, so that they become the tokens that the model will see when it plays.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from adaplan_agents.models.base import Provenance
from adaplan_agents.models.context import SAMPLED, Context
from adaplan_agents.models.tokens import Sampler, TokenConversation, Vocabulary
from adaplan_envs.chat import Sampling
from adaplan_envs.errors import ConfigError
from adaplan_evaluation.store import RESULTS
from adaplan_training.replay import replay_run
from adaplan_training.sequences import IMITATED, TokenSequence, parse_roles
from adaplan_training.transcripts import Transcript, fingerprint, read_transcripts

_log = logging.getLogger(__name__)
T = TypeVar("T")


class TokenModel(Protocol):
    """What has to be known of the model that is trained; `adaplan_agents.models.hf.HFModel` is one."""

    @property
    def vocabulary(self) -> Vocabulary: ...
    @property
    def sampler(self) -> Sampler: ...


def load_sequences(files: Iterable[str | Path], model: TokenModel, roles: Iterable[str]) -> list[TokenSequence]:
    """Return what there is to imitate, in the order of the files. What is left out is counted in a warning.

    Args:
        files: JSONL files of demonstrations or chats, or folders of recorded runs, of which the episodes that succeeded
            are taken.
        model: what is trained. Conversations longer than its window are left out: they would end in mid-air.
        roles: whose tokens are trained: ``planner``, ``executor``, for a model that still has to learn the text itself
            also ``observation`` and ``given``. The answers of a plain chat are the executor's.

    Raises:
        ConfigError: no such file, a damaged line, or nothing left to train on.
    """
    files, trained, window = list(files), parse_roles(roles, IMITATED), model.sampler.window
    mark = fingerprint(model.vocabulary)
    sequences, long, other = [], 0, 0
    for each in read_files(files):
        sequence = tokenise(each, model.vocabulary, trained, mark)
        if not sequence.trained_tokens:
            other += 1
        elif len(sequence) > window:
            long += 1
        else:
            sequences.append(sequence)
    if not sequences:
        raise ConfigError(
            f"nothing to train on in {', '.join(map(str, files)) or 'no file'}: {long} conversations are longer than "
            f"{window} tokens, {other} hold no answer of {' or '.join(trained)}"
        )
    if long or other:
        _log.warning(
            "left out: %d conversations longer than %d tokens, %d without an answer of %s; %d are trained",
            *(long, window, other, " or ".join(trained), len(sequences)),
        )
    return sequences


def read_files(files: Iterable[str | Path]) -> Iterator[Transcript]:
    """Yield the conversations of files and of the folders of runs.

    Raises:
        ConfigError: no such file or run, or a damaged line.
    """
    for path in map(Path, files):
        if (path / RESULTS).is_file():
            yield from replay_run(path)
        elif path.is_dir():
            raise ConfigError(f"{path} is a folder, but not of a run (no {RESULTS}); name the JSONL file in it")
        else:
            yield from read_transcripts(path)


def tokenise(transcript: Transcript, vocabulary: Vocabulary, roles: Sequence[Provenance], mark: str) -> TokenSequence:
    """Return the tokens of a conversation; what `roles` answered is trained, the token that ends an answer included.

    `mark` is the `fingerprint` of `vocabulary`.
    """
    tokens = transcript.tokens
    if tokens is not None and tokens.vocabulary == mark:
        trained = [name in roles for start, stop, name in tokens.spans for _ in range(start, stop)]
        return TokenSequence(tokens.ids, tuple(trained))
    context = speak(transcript.messages, vocabulary)
    return TokenSequence(context.ids, tuple(context.mask(*roles)))


def speak(messages: Sequence[dict[str, str]], vocabulary: Vocabulary) -> Context:
    """Return the context of a conversation in which a model answers with exactly these answers."""
    dictation = _Dictation()
    system = messages[0]["content"] if messages and messages[0]["role"] == "system" else ""
    conversation = TokenConversation(dictation, vocabulary, system)
    for message in messages[1:] if system else messages:
        provenance = Provenance(message["provenance"])
        if message["role"] == "user":
            conversation.user(message["content"], provenance)
        elif message["role"] == "assistant" and provenance in SAMPLED:
            dictation.next = vocabulary.encode(message["content"])
            if message.get("finish") != "length":
                dictation.next += _end(vocabulary)
            _at_once(conversation.sample(Sampling(max_tokens=1), provenance))
        elif message["role"] == "assistant":
            conversation.assistant(message["content"])
    return conversation.context


@dataclass(slots=True)
class _Spoken:
    tokens: list[int]
    logprobs: list[float]
    finish: str = "stop"


class _Dictation:
    """A sampler that "samples" the tokens it was given before."""

    window = 2**62

    def __init__(self) -> None:
        self.next: list[int] = []

    def open(self) -> None:
        return None

    def close(self, row: Any) -> None:
        return None

    async def sample(
        self,
        row: Any,
        context: Sequence[int],
        sampling: Sampling,
        rng: random.Random,
        *,
        stops: Callable[[list[int]], bool],
    ) -> _Spoken:
        return _Spoken(self.next, [0.0] * len(self.next))


def _at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never waits, in a running event loop too."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise RuntimeError("a conversation by dictation waited for something")


def _end(vocabulary: Vocabulary) -> list[int]:
    """Return the token by which a model ends an answer: the template's where it is one, else the first known."""
    frame = vocabulary.frame("next_user")
    if frame and frame[0] in vocabulary.ends:
        return frame[:1]
    return sorted(vocabulary.ends)[:1]
