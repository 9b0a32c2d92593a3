"""Models of a few thousand weights, a tokenizer of bytes, and the environments that they learn in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from adaplan_agents import Briefing, Decision
from adaplan_agents.models.base import Provenance
from adaplan_agents.session import ModelAgent, ModelSession
from adaplan_envs import ActionStatus, Outcome, Task, TextEnv

TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SPECIAL = ["<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer with a token for each byte."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate([*SPECIAL, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(SPECIAL)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>", pad_token="<|end|>")
    fast.chat_template = TEMPLATE
    return fast


def tiny_model(seed: int = 0, window: int = 2048, **settings: Any) -> LlamaForCausalLM:
    """Return a random Llama."""
    torch.manual_seed(seed)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = LlamaConfig(
        vocab_size=256 + len(SPECIAL),
        max_position_embeddings=window,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=0,
        tie_word_embeddings=True,
        **{**sizes, "num_key_value_heads": 4, **settings},
    )
    return LlamaForCausalLM(config)


def save_tiny(folder: Path, **settings: Any) -> str:
    """Write model and tokenizer to `folder` and return the spec string."""
    tiny_model(**settings).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return f"hf:{folder}"


BEST = "i"


class Bandit(TextEnv):
    """One action: a letter. The same one is best in every task; its score is 1, that of others falls with distance."""

    name = "bandit"
    splits = {"train": 4, "test": 4}
    rulesets = {"default": "Name the arm."}
    default_max_steps = 1

    def make_task(self, split: str, index: int) -> Task:
        return Task(self.task_id(split, index), split, index, "be paid", 1, BEST)

    def _begin(self, task: Task, seed: int) -> str:
        self._state = 0.0
        return "abcd"[task.index]

    def _score(self) -> float:
        return float(self._state)

    def _apply(self, action: str) -> Outcome:
        paid = action == self.current_task.data
        if len(action) == 1:
            self._state = max(0.0, 0.9 - abs(ord(action) - ord(self.current_task.data)) / 100)
        return Outcome("paid" if paid else "not paid", ActionStatus.OK, action, success=paid, failed=not paid)

    def _make_expert(self) -> Any:
        env = self

        class Expert:
            def plan(self) -> list[str]:
                return [f"Say {env.current_task.data}."]

            def action(self) -> str:
                return str(env.current_task.data)

        return Expert()


BANDIT = "Test/Bandit-v0"
if BANDIT not in gymnasium.registry:
    gymnasium.register(BANDIT, Bandit, disable_env_checker=True, order_enforce=False)


class Terse(ModelAgent):
    """Shows the observation and plays the answer as it is."""

    kind = "naive"

    def start(self, briefing: Briefing) -> ModelSession:
        return _TerseSession(self, briefing)


class _TerseSession(ModelSession):
    def __init__(self, agent: ModelAgent, briefing: Briefing) -> None:
        super().__init__(agent, briefing)
        self.conversations["executor"] = agent.model.open()

    async def act(self, observation: str) -> Decision:
        conversation = self.conversations["executor"]
        conversation.user(observation, Provenance.OBSERVATION)
        reply = await self.ask(conversation, Provenance.EXECUTOR)
        usage, self._turn = reply.usage, []
        return Decision(reply.text, raw=reply.text, usage=usage)


class Chatty(Terse):
    """Asks twice: an answer to nothing in the planner's role, then the one that is played."""

    def start(self, briefing: Briefing) -> ModelSession:
        return _ChattySession(self, briefing)


class _ChattySession(_TerseSession):
    async def act(self, observation: str) -> Decision:
        conversation = self.conversations["executor"]
        conversation.user("?")
        await self.ask(conversation, Provenance.PLANNER)
        return await super().act(observation)
