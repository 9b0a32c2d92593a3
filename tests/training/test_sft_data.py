"""Files to imitate become the tokens that the model sees when it plays, and exactly its answers are trained."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from adaplan_agents import Sampling
from adaplan_agents.models.base import Provenance
from adaplan_agents.models.hf import HFModel
from adaplan_envs.errors import ConfigError, UnknownNameError
from adaplan_training.demos import DemoConfig, demonstrate
from adaplan_training.make_model import Shape, random_model, train_tokenizer
from adaplan_training.sequences import TokenSequence
from adaplan_training.sft_data import load_sequences, speak
from adaplan_training.transcripts import RecordedConversation, RecordingModel, Transcript, write_transcripts
from adaplan_training.transcripts import fingerprint as mark
from adaplan_training.transcripts import transcript as transcript_of

BOTH = ("planner", "executor")


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return train_tokenizer(["Be brief. Go on. What now? You see a door. Action: open the door"], 600)


@pytest.fixture(scope="module")
def model(tokenizer: Any) -> HFModel:
    return HFModel(random_model("llama", Shape(32, 2), tokenizer), tokenizer, name="tiny", window=4096)


def sampled(model: HFModel, limit: int = 12) -> tuple[Transcript, Any]:
    """A conversation with the model itself, both roles, an answer that was cut and one from elsewhere included."""

    async def talk() -> tuple[Transcript, Any]:
        recorded = RecordingModel.around(model)
        conversation = recorded.open("Be brief.")
        for turn, role in enumerate([Provenance.PLANNER, Provenance.EXECUTOR] * 2):
            conversation.user("What now? ")
            conversation.user(f"You see door {turn}.", Provenance.OBSERVATION)
            conversation.user("\nGo on.")
            if turn == 2:
                conversation.assistant("1. open the door")
                conversation.user("And?")
            await conversation.sample(Sampling(temperature=1.0, max_tokens=limit, seed=turn), role)
        return transcript_of(conversation, {}, mark(model.vocabulary)), conversation.context

    return asyncio.run(talk())


def write(path: Path, *records: Any) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_what_a_model_sampled_comes_back_token_by_token(model: HFModel, tmp_path: Path) -> None:
    transcript, context = sampled(model)
    write_transcripts(tmp_path / "own.jsonl", [transcript])
    for roles in (("planner",), ("executor",), BOTH):
        (sequence,) = load_sequences([tmp_path / "own.jsonl"], model, roles)
        assert sequence == TokenSequence(context.ids, tuple(context.mask(*map(Provenance, roles))))


def test_demonstrations_are_the_tokens_of_a_conversation_in_which_the_model_answers_so(model: HFModel) -> None:
    """The reference is the chat template as it stands in the tokenizer."""

    async def collect() -> list[Transcript]:
        return [each async for each in demonstrate(DemoConfig(envs="maze", tasks=2, noise=0.3))]

    for each in asyncio.run(collect()):
        context = speak(each.messages, model.vocabulary)
        text = model.tokenizer.decode(list(context.ids))
        expected, last = "", ""
        for message in each.messages:
            role = message["role"]
            if role != last or role == "assistant":
                expected += ("<|end|>" if last else "") + f"<|{role}|>"
            expected, last = expected + message["content"], role
        assert text == expected + "<|end|>"
        assert "<|end|>" not in each.messages[-1]["content"]


def test_the_trained_tokens_are_the_answers_with_their_ends(model: HFModel, tmp_path: Path) -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What now?"},
        {"role": "assistant", "content": "1. go on", "provenance": "planner"},
        {"role": "user", "content": "Go on."},
        {"role": "assistant", "content": "Action: slip", "provenance": "given"},
        {"role": "user", "content": "You see "},
        {"role": "user", "content": "a door.", "provenance": "observation"},
        {"role": "assistant", "content": "Action: open the door"},
        {"role": "user", "content": "What now?"},
        {"role": "assistant", "content": "Action: open the", "finish": "length"},
    ]
    path = write(tmp_path / "chat.jsonl", {"messages": messages, "anything": 1})

    def trained(*roles: str) -> str:
        (sequence,) = load_sequences([path], model, roles)
        ids = [token for token, kept in zip(sequence.ids, sequence.trained, strict=True) if kept]
        return str(model.tokenizer.decode(ids))

    assert trained("planner") == "1. go on<|end|>"
    assert trained("executor") == "Action: open the door<|end|>Action: open the"
    assert trained(*BOTH) == "1. go on<|end|>Action: open the door<|end|>Action: open the"


def test_marks_of_turns_within_a_text_stay_text(model: HFModel, tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "<|end|><|assistant|>"}, {"role": "assistant", "content": "Go <|end|>"}]
    (sequence,) = load_sequences([write(tmp_path / "chat.jsonl", {"messages": messages})], model, BOTH)
    assert sequence.ids.count(model.tokenizer.eos_token_id) == 2


def test_tokens_of_another_tokenizer_are_not_taken(model: HFModel, tmp_path: Path) -> None:
    transcript, _ = sampled(model)
    path = tmp_path / "own.jsonl"
    write_transcripts(path, [transcript])
    other = train_tokenizer(["Quite another text with other words"], 600)
    foreign = HFModel(random_model("llama", Shape(32, 2), other), other, window=4096)
    (sequence,) = load_sequences([path], foreign, BOTH)
    text = other.decode([token for token, kept in zip(sequence.ids, sequence.trained, strict=True) if kept])
    said = [message["content"] for message in transcript.messages if message["provenance"] in BOTH]
    assert text.replace("<|end|>", "") == "".join(said)
    plain = HFModel(model.model, model.tokenizer, window=4096, chat_template="plain")
    assert mark(plain.vocabulary) != mark(model.vocabulary)


def test_what_is_left_out_is_counted(model: HFModel, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def chat(words: int, role: str = "executor") -> Any:
        answer = {"role": "assistant", "content": "Go on.", "provenance": role}
        return {"messages": [{"role": "user", "content": "What now? " * words}, answer]}

    path = write(tmp_path / "chat.jsonl", chat(1), chat(2000), chat(2, "planner"), chat(3))
    with caplog.at_level(logging.WARNING):
        assert len(load_sequences([path], model, ["executor"])) == 2
    assert "1 conversations longer than 4096 tokens, 1 without an answer of executor; 2 are trained" in caplog.text
    with pytest.raises(ConfigError, match="nothing to train on"):
        load_sequences([write(tmp_path / "long.jsonl", chat(2000))], model, BOTH)


USER, ANSWER = {"role": "user", "content": "Go."}, {"role": "assistant", "content": "Gone."}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1: Expecting"),
        ("[]", 'line 1: a line must be an object with "messages"'),
        ('{"conversations": []}', '"messages", a list'),
        ({"messages": [USER, {"role": "bot", "content": "x"}]}, "message 2 has no role of system, user, assistant"),
        ({"messages": [USER, {"role": "assistant", "content": None}]}, "message 2 has no content"),
        ({"messages": [ANSWER]}, "message 1 is an answer, but nothing of the user's"),
        ({"messages": [USER, ANSWER, ANSWER]}, "message 3 is an answer"),
        ({"messages": [USER, {"role": "system", "content": "x"}]}, "only the first can be one"),
        ({"messages": [USER, {**ANSWER, "provenance": "me"}]}, "provenance 'me'; valid: given"),
        ({"messages": [{**USER, "provenance": "planner"}]}, "is the user's, but its provenance is planner"),
        ({"messages": [USER, ANSWER], "ids": [1, 2], "spans": [[0, 1, "given"]]}, "do not cover"),
        ({"messages": [USER, ANSWER], "ids": [1, 2]}, "without usable"),
    ],
)
def test_a_damaged_line_is_named_with_what_is_wrong(line: Any, message: str, model: HFModel, tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    path.write_text(line if isinstance(line, str) else json.dumps(line))
    with pytest.raises(ConfigError, match=message):
        load_sequences([path], model, BOTH)


def test_wrong_files_and_roles_are_refused(model: HFModel, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't read"):
        load_sequences([tmp_path / "none.jsonl"], model, BOTH)
    with pytest.raises(ConfigError, match="not of a run"):
        load_sequences([tmp_path], model, BOTH)
    with pytest.raises(UnknownNameError, match="planner"):
        load_sequences([tmp_path], model, ["plan"])


def test_a_branch_of_a_conversation_has_a_record_of_its_own(model: HFModel) -> None:
    recorded = RecordingModel.around(model)

    async def talk() -> tuple[RecordedConversation, RecordedConversation]:
        conversation = recorded.open("Be brief.")
        conversation.user("Go.")
        branch = conversation.fork()
        await branch.sample(Sampling(max_tokens=2, temperature=1.0, seed=1))
        return conversation, branch

    conversation, branch = asyncio.run(talk())
    assert [message["role"] for message in conversation.record] == ["system", "user"]
    assert [message["role"] for message in branch.record] == ["system", "user", "assistant"]
