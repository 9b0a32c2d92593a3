"""Models that transformers loads, in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from adaplan_agents.models.base import Conversation, Model
from adaplan_agents.models.template import find_pieces
from adaplan_agents.models.tokens import Sampler, TokenConversation, Vocabulary
from adaplan_agents.models.warm import Warm
from adaplan_envs.chat import ChatReply, Message, Sampling
from adaplan_envs.errors import ConfigError, ModelAccessError, check_name, require

DTYPES = ("auto", "bfloat16", "float16", "float32")


class HFModel(Model):
    """A causal language model of transformers and its tokenizer, sampled in this process.

    Args:
        model: from `AutoModelForCausalLM`, on the device and in the precision to use.
        tokenizer: its tokenizer.
        name: for tables and results.
        window: most tokens of a conversation; default the model's own limit.
        chat_template: instead of the tokenizer's: ``plain``, a Jinja file or Jinja text.
        keep_history: keep every turn as it was sampled though the template would rewrite earlier ones.
        template_options: passed to the template, such as ``{"enable_thinking": False}``.
        sampler: instead of the built-in engine.

    Raises:
        ModelAccessError: the chat template can't be used; the message says what mends it.
        ConfigError: `window` is missing where the model states none, or larger than the model's.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        name: str = "hf",
        window: int | None = None,
        chat_template: str | Path | None = None,
        keep_history: bool = False,
        template_options: Mapping[str, Any] | None = None,
        sampler: Sampler | None = None,
    ) -> None:
        from adaplan_agents.models.engine import Engine
        from adaplan_agents.models.guide import Guides

        self.name = name
        self.model = model
        self.tokenizer = tokenizer
        limit: int | None = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        if window is None:
            if limit is None:
                raise ConfigError("the model states no longest input; give one, such as window=4096")
            window = limit
        if not 0 < window <= (limit or window):
            raise ConfigError(f"window is {window}; this model can read 1 to {limit} tokens")
        pieces = find_pieces(tokenizer, chat_template, keep_history, template_options or {})
        self.vocabulary = Vocabulary(tokenizer, pieces, _ends(model, tokenizer))
        self._warm = Warm()
        self.sampler = sampler or Engine(model, window=window, guides=Guides(tokenizer, sorted(self.vocabulary.ends)))

    def open(self, system: str = "") -> Conversation:
        return TokenConversation(self.sampler, self.vocabulary, system)

    async def chat(self, messages: Sequence[Message], sampling: Sampling | None = None) -> ChatReply:
        """Answer `messages`; see `Model.chat`. A chat that goes on where another ended reads only what is new."""
        conversation = self._warm.take(messages)
        keep = False
        try:
            if conversation is None:
                conversation = self.open_with(messages)
            else:
                conversation.user(messages[-1]["content"])
            reply = await conversation.sample(sampling or Sampling())
            keep = self._reads_the_same(conversation, reply.text)
            return reply
        finally:
            self._warm.end(conversation, keep)

    def _reads_the_same(self, conversation: Conversation, answer: str) -> bool:
        """Whether the answer's text, tokenised anew, gives the tokens that were sampled: else what is kept differs."""
        assert conversation.context is not None
        sampled = list(conversation.context.ids[conversation.context.spans[-1].start :])
        if sampled[-1] in self.vocabulary.ends:
            sampled = sampled[:-1]
        return sampled == self.vocabulary.encode(answer)

    async def aclose(self) -> None:
        self._warm.close()

    def describe(self) -> dict[str, Any]:
        weights = next(self.model.parameters())
        return {
            "name": self.name,
            "architecture": type(self.model).__name__,
            "parameters": sum(tensor.numel() for tensor in self.model.parameters()),
            "dtype": str(weights.dtype).removeprefix("torch."),
            "device": weights.device.type,
            "window": self.sampler.window,
            "revision": getattr(self.model.config, "_commit_hash", None),
        }


def _ends(model: Any, tokenizer: Any) -> list[int]:
    """Return the ids that end an answer: those of the generation config, of the model and of the tokenizer."""
    found: set[int] = set()
    for holder in (getattr(model, "generation_config", None), model.config, tokenizer):
        ids = getattr(holder, "eos_token_id", None)
        found.update(ids if isinstance(ids, list) else [ids] if ids is not None else [])
    return sorted(found)


def load(
    path: str | Path,
    /,
    *,
    name: str | None = None,
    dtype: str | None = None,
    device: str | None = None,
    window: int | None = None,
    chat_template: str | Path | None = None,
    keep_history: bool = False,
    template_options: Mapping[str, Any] | None = None,
) -> HFModel:
    """Load ``hf:PATH_OR_ID``.

    Args:
        path: a folder in Hugging Face format, or an id of the hub, which transformers then downloads.
        name: for tables and results; default the spec.
        dtype: ``auto`` (as stored), ``bfloat16``, ``float16`` or ``float32``; default ``auto`` on a GPU, else
            ``float32``.
        device: such as ``cuda:1``; default a GPU where there is one.
        window: see `HFModel`, as for the following.
        chat_template: instead of the tokenizer's.
        keep_history: keep every turn as it was sampled.
        template_options: passed to the template.

    Raises:
        MissingExtraError: transformers or torch is not installed.
        ModelAccessError: no such model, or it can't be loaded.
    """
    if not str(path):
        raise ConfigError("which model? Give hf:PATH or hf:ORGANISATION/NAME")
    torch, transformers = require("torch", "hf"), require("transformers", "hf")
    spec = f"hf:{path}"
    # What can't be an id of the hub, which would be asked for it, is a folder.
    if str(path).startswith(("/", ".", "~")) or str(path).count("/") > 1:
        path = Path(path).expanduser()
        if not path.is_dir():
            raise ModelAccessError(f"{spec} can't be loaded: there is no such folder")
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    dtype = check_name("dtype", dtype or ("float32" if device == "cpu" else "auto"), DTYPES)
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(path)
        model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=dtype).to(device)
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ModelAccessError(f"{spec} can't be loaded: {reason}") from error
    return HFModel(
        model,
        tokenizer,
        name=name or spec,
        window=window,
        chat_template=chat_template,
        keep_history=keep_history,
        template_options=template_options,
    )


def loader_of(name: str, weights: Callable[[], Path]) -> Callable[..., HFModel]:
    """Return the function that loads the one model which the spec `name` means.

    Args:
        name: the spec.
        weights: returns the folder of the weights; called at each load.
    """

    def load_it(
        rest: str,
        /,
        *,
        dtype: str | None = None,
        device: str | None = None,
        window: int | None = None,
    ) -> HFModel:
        """Load the model.

        Args:
            rest: nothing.
            dtype: see `load`, as for the following; default float32.
            device: such as ``cuda:1``.
            window: most tokens of a conversation.

        Raises:
            MissingExtraError: a package that it needs is not installed.
            ModelAccessError: its weights are missing.
        """
        if rest:
            raise ConfigError(f"{name} is one model; there is no {rest!r} of it. For others: hf:PATH_OR_ID")
        return load(weights(), name=name, dtype=dtype or "float32", device=device, window=window)

    return load_it
