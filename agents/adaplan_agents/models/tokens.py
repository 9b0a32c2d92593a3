"""Conversations for backends that work on tokens: what the model wrote is kept as the very tokens it sampled."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, Self

from adaplan_agents.models.base import Conversation, Provenance
from adaplan_agents.models.context import Context
from adaplan_envs.chat import ChatReply, Sampling, Usage
from adaplan_envs.errors import ContextOverflowError

if TYPE_CHECKING:
    from adaplan_agents.models.template import Pieces


class Sampled(Protocol):
    """What a sampler returns: ids (one that ended the answer included), a log-probability each, and why it ended."""

    @property
    def tokens(self) -> Sequence[int]: ...
    @property
    def logprobs(self) -> Sequence[float]: ...
    @property
    def finish(self) -> str: ...


class Sampler(Protocol):
    """Tokens in, tokens out. A row is whatever it keeps for one conversation, such as its place in a KV cache."""

    window: int
    """The most tokens that a conversation may hold."""

    def open(self) -> Any:
        """Return a new row."""

    def close(self, row: Any) -> None:
        """Give a row back; closing twice is fine."""

    async def sample(
        self,
        row: Any,
        context: Sequence[int],
        sampling: Sampling,
        rng: random.Random,
        *,
        stops: Callable[[list[int]], bool],
    ) -> Sampled:
        """Continue `context`, all tokens of the conversation, until `stops` says so of the sampled ones."""


class Vocabulary:
    """Text to tokens and back, for one tokenizer and chat template.

    Args:
        tokenizer: of transformers.
        pieces: its chat template, taken apart.
        ends: ids that end an answer.
    """

    def __init__(self, tokenizer: Any, pieces: Pieces, ends: Sequence[int]) -> None:
        self.tokenizer = tokenizer
        self.system = pieces.system
        self.ends = frozenset(ends)
        # Rules and the observations of a small world come again and again, and a tokenizer is slow on short text.
        self._encoded = lru_cache(maxsize=8192)(self._encode)
        self._frames = {name: self._frame(getattr(pieces, name)) for name in ("head", "generate", "next_user")}
        if pieces.system is not None:
            self._frames["system"] = self._frame(pieces.system[0])
            self._frames["first_user"] = self._frame(pieces.system[1])

    def frame(self, name: str) -> list[int]:
        """Return the tokens of one of the template's pieces."""
        return self._frames[name]

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a content. What looks like a special token in it is text: nobody can fake a turn."""
        return list(self._encoded(text))

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True))

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of tokens, without special ones."""
        text: str = self.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text

    def stopper(self, stop: Sequence[str]) -> Callable[[list[int]], bool]:
        """Return a function that says of sampled tokens whether the answer is over."""
        # A stop string that has just been completed lies in the last tokens, one for each of its bytes at most, plus
        # one that it may begin within.
        reach = max((len(text.encode()) for text in stop), default=0) + 1

        def stops(tokens: list[int]) -> bool:
            if tokens[-1] in self.ends:
                return True
            return bool(stop) and any(text in self.decode(tokens[-reach:]) for text in stop)

        return stops

    def _frame(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False) if text else []
        return ids


class TokenConversation(Conversation):
    """A conversation whose truth is its `context`; the messages are its reading.

    Each piece of text is tokenised once, by itself, when it is added, and the tokens of an answer are kept as sampled.

    Attributes:
        sampler: what answers; it tells a trainer whose tokens these are.
    """

    def __init__(self, sampler: Sampler, vocabulary: Vocabulary, system: str = "") -> None:
        super().__init__(system)
        self.sampler = sampler
        self._vocabulary = vocabulary
        self._row = sampler.open()
        self._context = Context()
        self._told: list[tuple[str, Provenance]] = []
        """Pieces of the user's message that have not become tokens yet."""

    @property
    def context(self) -> Context:
        return self._context

    def _on_user(self, text: str, provenance: Provenance) -> None:
        if self._told and self._told[-1][1] is provenance:
            text = self._told.pop()[0] + text
        if text:
            self._told.append((text, provenance))

    def _on_assistant(self, text: str) -> None:
        self._context = self._extended()
        self._context.append(self._vocabulary.encode(text), Provenance.GIVEN)
        self._told = []

    async def _sample(self, sampling: Sampling, provenance: Provenance) -> ChatReply:
        context = self._extended()
        read, window = len(context), self.sampler.window
        if read + sampling.max_tokens > window:
            raise ContextOverflowError(
                f"{read} tokens and an answer of up to {sampling.max_tokens} do not fit the window of {window}"
            )
        rng = random.Random(sampling.seed)
        stops = self._vocabulary.stopper(sampling.stop)
        found = await self.sampler.sample(self._row, context.ids, sampling, rng, stops=stops)
        context.append(found.tokens, provenance, list(found.logprobs))
        self._context, self._told = context, []
        text = self._vocabulary.decode(found.tokens)
        text = text[: min((at for at in map(text.find, sampling.stop) if at >= 0), default=len(text))]
        return ChatReply(text, Usage(read, len(found.tokens), 1), found.finish)

    def _extended(self) -> Context:
        """Return the context up to where the next answer begins. The conversation itself is left as it is."""
        context = self._context.fork()
        vocabulary = self._vocabulary
        told = self._told
        if context:
            frame = vocabulary.frame("next_user")
            last = context.spans[-1]
            # The template ends an answer with a token that a model mostly samples itself.
            if last.provenance is not Provenance.GIVEN and frame and context.ids[-1] == frame[0]:
                frame = frame[1:]
            context.append(frame, Provenance.GIVEN)
        else:
            system = self.messages[0]["content"] if self.messages[0]["role"] == "system" else ""
            if system and vocabulary.system is not None:
                context.append(vocabulary.frame("system") + vocabulary.encode(system), Provenance.GIVEN)
                context.append(vocabulary.frame("first_user"), Provenance.GIVEN)
            else:
                context.append(vocabulary.frame("head"), Provenance.GIVEN)
                told = [(system + "\n\n", Provenance.GIVEN), *told] if system else told
        for text, provenance in told:
            context.append(vocabulary.encode(text), provenance)
        context.append(vocabulary.frame("generate"), Provenance.GIVEN)
        return context

    def _fork(self) -> Self:
        twin = type(self)(self.sampler, self._vocabulary)
        twin._context, twin._told = self._context.fork(), self._told.copy()
        return twin

    def close(self) -> None:
        self.sampler.close(self._row)
