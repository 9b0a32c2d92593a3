"""Answers of a given form: which tokens may come next, so that an answer is JSON of a schema, or one of some texts.

The grammar is llguidance's; a model that would write prose is held to the form that it was asked for.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from adaplan_envs.chat import Sampling
from adaplan_envs.errors import ConfigError, ModelError, require

_log = logging.getLogger(__name__)

_COMPACT: Any = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""As `json.dumps` writes: without it a small model may fill an answer with spaces."""


class Guides:
    """Makes guides for one tokenizer.

    Args:
        tokenizer: of transformers.
        ends: ids that end an answer; allowed where the answer is complete, and nowhere else.
    """

    def __init__(self, tokenizer: Any, ends: Sequence[int]) -> None:
        self._hf, self._ends = tokenizer, list(ends)

    @cached_property
    def _tokenizer(self) -> Any:
        """The tokenizer as llguidance knows it, or None where it knows no such."""
        require("llguidance", "hf")
        import llguidance.hf

        try:
            return llguidance.hf.from_tokenizer(self._hf, eos_token=self._ends)
        except ValueError as error:
            _log.warning("answers can't be held to a form with this tokenizer (%s): they are sampled freely.", error)
            return None

    def start(self, sampling: Sampling) -> Guide | None:
        """Return the guide of one answer, or None where it has no form, or the tokenizer allows none.

        Raises:
            ConfigError: no such schema is supported.
            MissingExtraError: llguidance is not installed.
        """
        if (sampling.json_schema is None and sampling.choices is None) or self._tokenizer is None:
            return None
        from llguidance import LLMatcher

        if sampling.choices is not None:
            texts = " | ".join(json.dumps(text, ensure_ascii=False) for text in sampling.choices)
            # A terminal, not a rule: the lexer takes thousands of texts, the parser doesn't.
            matcher = LLMatcher(self._tokenizer, LLMatcher.grammar_from_lark(f"start: TEXT\nTEXT: {texts}"))
        else:
            grammar = LLMatcher.grammar_from_json_schema(json.dumps(sampling.json_schema), defaults=_COMPACT)
            matcher = LLMatcher(self._tokenizer, grammar)
        if matcher.is_error():
            kind = "JSON schema" if sampling.choices is None else "choice"
            raise ConfigError(f"answers can't be held to this {kind}: {matcher.get_error()}")
        return Guide(matcher)


class Guide:
    """Follows one answer, token by token."""

    def __init__(self, matcher: Any) -> None:
        self._matcher = matcher

    def restrict(self, logits_V: Tensor) -> None:
        """Set the logits of all tokens that can't come next to minus infinity, in place.

        Raises:
            ModelError: nothing can.
        """
        # A byte for each token that llguidance knows, not 0 where it is allowed; a model's head may be wider.
        allowed_U = torch.frombuffer(bytearray(self._matcher.compute_logit_bias()), dtype=torch.uint8) != 0
        if self._matcher.is_error() or not allowed_U.any():
            raise ModelError(f"the answer can't be held to its form: {self._matcher.get_error()}")
        known = len(allowed_U)
        logits_V[:known].masked_fill_(~allowed_U.to(logits_V.device), -torch.inf)
        logits_V[known:] = -torch.inf

    def accept(self, token: int) -> None:
        """Take note of the token that was drawn."""
        self._matcher.consume_token(token)
