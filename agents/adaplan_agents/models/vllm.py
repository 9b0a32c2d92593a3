"""Models in vLLM's engine, in this process: tokens in, tokens out."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adaplan_agents.models.base import Conversation, Model
from adaplan_agents.models.template import find_pieces
from adaplan_agents.models.tokens import TokenConversation, Vocabulary
from adaplan_envs.chat import Sampling
from adaplan_envs.errors import ConfigError, ModelAccessError, ModelError, require


@dataclass(frozen=True, slots=True)
class _Answer:
    tokens: Sequence[int]
    logprobs: Sequence[float]
    finish: str


class VLLMModel(Model):
    """``vllm:PATH_OR_ID``. vLLM keeps the prefixes that it has read, so there is nothing to keep for a conversation.

    Args:
        path: as for ``hf:``.
        window: most tokens of a conversation; default the model's own limit.
        chat_template: see `adaplan_agents.models.hf.HFModel`.
        keep_history: the same.
        template_options: the same.
        engine: further arguments of vLLM's engine, such as ``{"tensor_parallel_size": 2}``.

    Raises:
        MissingExtraError: vLLM is not installed.
        ModelAccessError: the model can't be loaded, or its chat template not be used.
    """

    def __init__(
        self,
        path: str,
        /,
        *,
        window: int | None = None,
        chat_template: str | Path | None = None,
        keep_history: bool = False,
        template_options: Mapping[str, Any] | None = None,
        engine: Mapping[str, Any] | None = None,
    ) -> None:
        if not path:
            raise ConfigError("which model? Give vllm:PATH or vllm:ORGANISATION/NAME")
        vllm = require("vllm", "vllm")
        transformers = require("transformers", "hf")
        self.name = f"vllm:{path}"
        arguments = {"model": path, "max_model_len": window, "enable_prefix_caching": True, **(engine or {})}
        # Log-probabilities of the distribution that is sampled from, after temperature and cuts.
        arguments.setdefault("logprobs_mode", "processed_logprobs")
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(path)
            self._engine = vllm.AsyncLLMEngine.from_engine_args(vllm.AsyncEngineArgs(**arguments))
        except (OSError, ValueError, RuntimeError) as error:
            raise ModelAccessError(f"vllm:{path} can't be loaded: {str(error).partition(chr(10))[0]}") from error
        pieces = find_pieces(tokenizer, chat_template, keep_history, template_options or {})
        self._vocabulary = Vocabulary(tokenizer, pieces, [tokenizer.eos_token_id])
        self._sampler = _VLLMSampler(self._engine, vllm, sorted(self._vocabulary.ends))

    def open(self, system: str = "") -> Conversation:
        return TokenConversation(self._sampler, self._vocabulary, system)

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "window": self._sampler.window}

    async def aclose(self) -> None:
        self._engine.shutdown()


class _VLLMSampler:
    def __init__(self, engine: Any, vllm: Any, ends: list[int]) -> None:
        self._engine, self._vllm, self._ends = engine, vllm, ends
        self._numbers = itertools.count()
        self.window: int = engine.model_config.max_model_len

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
    ) -> _Answer:
        settings = self._vllm.SamplingParams(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            max_tokens=sampling.max_tokens,
            seed=rng.getrandbits(31),
            stop=list(sampling.stop),
            stop_token_ids=self._ends,
            logprobs=0,
            **_form(self._vllm, sampling),
        )
        prompt, number = {"prompt_token_ids": list(context)}, str(next(self._numbers))
        final: Any = None
        try:
            async for partial in self._engine.generate(prompt, settings, number):
                final = partial
        except Exception as error:
            raise ModelError(f"vLLM failed: {type(error).__name__}: {error}") from error
        if final is None or not final.outputs:
            raise ModelError("vLLM returned no answer")
        answer = final.outputs[0]
        tokens = list(answer.token_ids)
        logprobs = [ranked[token].logprob for token, ranked in zip(tokens, answer.logprobs, strict=True)]
        return _Answer(tokens, logprobs, answer.finish_reason or "stop")


def _form(vllm: Any, sampling: Sampling) -> dict[str, Any]:
    """Return the argument that holds an answer to its form, where it has one; vLLM has renamed it."""
    form: dict[str, Any]
    if sampling.choices is not None:
        form = {"choice": list(sampling.choices)}
    elif sampling.json_schema is not None:
        form = {"json": dict(sampling.json_schema)}
    else:
        return {}
    kinds = vllm.sampling_params
    if hasattr(kinds, "StructuredOutputsParams"):
        return {"structured_outputs": kinds.StructuredOutputsParams(**form)}
    return {"guided_decoding": kinds.GuidedDecodingParams(**form)}
