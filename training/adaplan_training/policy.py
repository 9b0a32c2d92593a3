"""The policy: a model that is trained, and the sampler that plays with its weights."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from adaplan_agents.models import load_model
from adaplan_agents.models.engine import Engine
from adaplan_agents.models.hf import HFModel
from adaplan_envs.errors import ConfigError, require
from adaplan_training.config import ModelConfig
from adaplan_training.logprobs import token_logprobs
from adaplan_training.sequences import Batch

_log = logging.getLogger(__name__)


class Policy:
    """A causal language model in training.

    Args:
        chat: the model with its tokenizer, as agents use it.
        config: precision, sampler, adapters ...; its ``spec`` is not read again.
        reference: keep a frozen copy of the weights as they are now, for the KL divergence. With LoRA it costs nothing.

    Attributes:
        chat: what agents play with. Its weights follow those in training after `sync`.
        tokenizer: of the model.
    """

    def __init__(self, chat: HFModel, config: ModelConfig, *, reference: bool = False) -> None:
        self.chat = chat
        self.config = config
        self.tokenizer = chat.tokenizer
        self.window: int = chat.sampler.window
        model = chat.model
        _disable_dropout(model)
        self._adapted: Any = None
        """The model inside its adapters' wrapper, where there are any."""
        if config.lora_rank:
            self._adapted = _adapt(model, config)
        if config.gradient_checkpointing:
            _checkpoint_activations(model)
        self.model = model
        self._trunk, self._head = _split_head(model)
        self._reference: tuple[Callable[..., Any], Callable[[Tensor], Tensor]] | None = None
        if reference and self._adapted is None:
            frozen = copy.deepcopy(model).eval().requires_grad_(False)
            self._reference = _split_head(frozen)
        if config.compile:
            self._trunk = torch.compile(self._trunk, dynamic=True)
        self._twin: Any = None
        if config.sampler == "bfloat16" and model.dtype != torch.bfloat16:
            self._twin = copy.deepcopy(model).eval().requires_grad_(False)
            for parameter in self._twin.parameters():  # not the buffers: positions need their float32
                parameter.data = parameter.data.to(torch.bfloat16)
            chat.model = self._twin
            chat.sampler = Engine(self._twin, window=self.window)
        self._autocast_dtype = torch.bfloat16 if config.precision == "mixed" else None

    @classmethod
    def load(cls, config: ModelConfig, *, window: int | None = None, reference: bool = False) -> Policy:
        """Load what `config` names.

        Args:
            config: the model.
            window: most tokens of a conversation; None for the model's own limit.
            reference: see the class.

        Raises:
            ConfigError: the model does not run in this process, so that it can't be trained here.
            ModelAccessError: it can't be loaded.
        """
        options: dict[str, Any] = {"device": config.device, "window": window}
        options["dtype"] = "bfloat16" if config.precision == "bfloat16" else "float32"
        if config.chat_template is not None:
            options["chat_template"] = config.chat_template
        with _no_bars():
            chat = load_model(config.spec, **options)
        if not isinstance(chat, HFModel):
            raise ConfigError(
                f"{config.spec} can't be trained: only hf:PATH_OR_ID and smollm2 hold weights in this process"
            )
        if config.chat_template is not None:  # so that a checkpoint is used as it was trained
            from adaplan_agents.models.template import _template_text

            chat.tokenizer.chat_template = _template_text(chat.tokenizer, config.chat_template)
        return cls(chat, config, reference=reference)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        device: torch.device = next(self.model.parameters()).device
        return device

    @property
    def engine(self) -> Engine:
        """What samples."""
        return cast(Engine, self.chat.sampler)

    @property
    def vocabulary(self) -> int:
        """Number of tokens that it knows."""
        return int(self.model.config.get_text_config().vocab_size)

    def parameters(self) -> Iterator[nn.Parameter]:
        """Return what is trained."""
        return (parameter for parameter in self.model.parameters() if parameter.requires_grad)

    @property
    def tables(self) -> list[nn.Parameter]:
        """Its embeddings and output layer; where they are tied, one twice."""
        layers = (self.model.get_input_embeddings(), self.model.get_output_embeddings())
        return [layer.weight for layer in layers if layer is not None]

    def logprobs(self, batch: Batch, temperature: float) -> tuple[Tensor, Tensor]:
        """Return log-probabilities (with gradient) and entropies of the trained tokens, float32 [B, T]."""
        if torch.is_grad_enabled():
            self.model.train()  # gradient checkpointing works in this mode only; there is no dropout
        return self._logprobs(self._trunk, self._head, batch, temperature)

    @torch.no_grad()
    def reference_logprobs(self, batch: Batch, temperature: float) -> Tensor:
        """Return the log-probabilities of the trained tokens under the frozen reference.

        Raises:
            ConfigError: the policy was made without one.
        """
        if self._adapted is not None:
            with self._adapted.disable_adapter():
                return self._logprobs(self._trunk, self._head, batch, temperature)[0]
        if self._reference is None:
            raise ConfigError("this policy keeps no reference; make it with reference=True")
        return self._logprobs(*self._reference, batch, temperature)[0]

    def _logprobs(
        self, trunk: Callable[..., Any], head: Callable[[Tensor], Tensor], batch: Batch, temperature: float
    ) -> tuple[Tensor, Tensor]:
        with self._autocast():
            # Padded on the right, so causal attention keeps padding out by itself: without a mask it is at its fastest.
            hidden_BTD = trunk(input_ids=batch.tokens_BT, use_cache=False)
            return token_logprobs(
                hidden_BTD,
                head,
                batch.tokens_BT,
                batch.mask_BT,
                temperature=temperature,
                vocabulary=self.vocabulary,
            )

    def _autocast(self) -> AbstractContextManager[Any]:
        if self._autocast_dtype is None:
            return nullcontext()
        return torch.autocast(self.device.type, self._autocast_dtype)

    @torch.no_grad()
    def sync(self) -> None:
        """Let the sampler play with the weights as they are now."""
        if self._twin is not None:
            for target, source in zip(self._twin.parameters(), self.model.parameters(), strict=True):
                target.copy_(source)
        self.engine.forget()

    def save(self, folder: Path) -> None:
        """Write model and tokenizer in Hugging Face format; ``hf:FOLDER`` loads them. With LoRA: the adapters."""
        with _no_bars():
            (self.model if self._adapted is None else self._adapted).save_pretrained(folder)
            self.tokenizer.save_pretrained(folder)

    def restore(self, folder: Path) -> None:
        """Take the weights that `save` wrote."""
        if self._adapted is not None:
            peft = require("peft", "train")
            weights = peft.utils.load_peft_weights(str(folder), device=str(self.device))
            peft.set_peft_model_state_dict(self._adapted, weights)
        else:
            with _no_bars():
                saved = type(self.model).from_pretrained(folder, dtype=self.model.dtype)
            self.model.load_state_dict(saved.state_dict())
        self.sync()


@contextmanager
def _no_bars() -> Iterator[None]:
    """Keep transformers from drawing progress bars into a live display."""
    from transformers.utils import logging as transformers_logging

    shown = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            transformers_logging.enable_progress_bar()


def _disable_dropout(model: nn.Module) -> None:
    """With dropout, the policy that is trained would not be the one that was sampled from."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name in ("attention_dropout", "dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)


def _checkpoint_activations(model: Any) -> None:
    if hasattr(model, "activation_checkpointing_enable"):  # its name from transformers 5.2x on
        model.activation_checkpointing_enable({"use_reentrant": False})
    else:
        model.gradient_checkpointing_enable({"use_reentrant": False})


def _adapt(model: Any, config: ModelConfig) -> Any:
    """Put adapters into the linear layers of `model`, in place, and return the wrapper that saves them."""
    peft = require("peft", "train")
    alpha = config.lora_alpha if config.lora_alpha is not None else 2 * config.lora_rank
    settings = peft.LoraConfig(r=config.lora_rank, lora_alpha=alpha, target_modules="all-linear", task_type="CAUSAL_LM")
    # Adapters are trained in float32 even in a bfloat16 model: small steps would be rounded away.
    return peft.get_peft_model(model, settings, autocast_adapter_dtype=True)


def _split_head(model: Any) -> tuple[Callable[..., Tensor], Callable[[Tensor], Tensor]]:
    """Return the model in two parts: token ids to last hidden states, and those to logits.

    Some models scale or cap their logits behind the output layer. Whether all is accounted for is tried out; where it
    is not, the first part returns the logits themselves, which takes more memory.
    """
    body, output = model.base_model, model.get_output_embeddings()
    settings = model.config.get_text_config()
    cap = getattr(settings, "final_logit_softcapping", None)
    factor = getattr(settings, "logit_scale", None) or 1.0 / (getattr(settings, "logits_scaling", None) or 1.0)

    def trunk(**inputs: Any) -> Tensor:
        hidden: Tensor = body(**inputs).last_hidden_state
        return hidden

    def head(hidden_ND: Tensor) -> Tensor:
        logits_NV: Tensor = output(hidden_ND)
        if factor != 1.0:
            logits_NV = logits_NV * factor
        return cap * torch.tanh(logits_NV / cap) if cap else logits_NV

    def whole(**inputs: Any) -> Tensor:
        logits: Tensor = model(**inputs).logits
        return logits

    ids = torch.tensor([[token % settings.vocab_size for token in (3, 1, 4, 1, 5, 9, 2, 6)]], device=model.device)
    with torch.no_grad():
        model.eval()
        wanted = whole(input_ids=ids, use_cache=False)
        try:
            close = torch.allclose(head(trunk(input_ids=ids, use_cache=False)), wanted, atol=1e-4, rtol=1e-3)
            reason = "" if close else "other logits"
        except Exception as error:  # whatever an unusual model raises
            reason = f"{type(error).__name__}: {error}"
    if reason:
        _log.warning(
            "%s does more behind its output layer than is known here (%s): all logits are kept, which takes memory.",
            type(model).__name__,
            reason,
        )
        return whole, lambda logits_NV: logits_NV
    return trunk, head
