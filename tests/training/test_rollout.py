"""What a rollout is. The rules, each with its test, on a scripted policy without a model:

1. Only sampled tokens of the chosen roles are trained: by provenance, never by a token's value or a message's role.
2. The tokens of a sequence are exactly what the policy read and wrote, in order, and its log-probabilities are those
   that the sampler reported.
3. Two budgets: an answer is cut at `turn_tokens`; a conversation that would outgrow `episode_tokens` ends the episode
   as ``context``, and what was sampled until then is kept.
4. Nothing is dropped in silence: every turn's answer is in the sequence, and every episode in its group.
5. An episode that runs into the deadline ends as ``deadline``; the others go on.
6. An episode that errs is lost; its group survives without it.
7. Members of a group share the task and differ in their seeds.
8. Equal seeds give equal groups, one after another or all at once.
9. Branches of candidate plans that were dropped are not trained.
10. Conversations with another model than the policy are not trained.
11. It is known which tokens are of which turn: those of a turn are what was read and written for its action.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from adaplan_agents import AdaPlanAgent, make_agent
from adaplan_agents.models.base import Conversation, Model, Provenance
from adaplan_agents.models.template import find_pieces
from adaplan_agents.models.tokens import TokenConversation, Vocabulary
from adaplan_envs.chat import Sampling
from adaplan_envs.errors import ConfigError, ModelError
from adaplan_envs.types import StopReason
from adaplan_training.config import RolloutConfig
from adaplan_training.rollout import Collector, Group, TaskRef
from adaplan_training.sequences import ROLES, parse_roles
from tests.evaluation.games import COUNTER
from tests.training.tiny import byte_tokenizer

TOKENIZER = byte_tokenizer()
BOTH = parse_roles(ROLES)
DOWN = "Thought: one less\nAction: down"
PLAN = "1. down\n2. down"


@dataclass
class Answer:
    tokens: list[int]
    logprobs: list[float]
    finish: str


@dataclass
class ScriptedSampler:
    """Answers by a function of the text so far; keeps what it read and wrote."""

    script: Callable[[str, random.Random], Any]
    window: int = 100_000
    log: list[tuple[tuple[int, ...], list[int]]] = field(default_factory=list)

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
    ) -> Answer:
        answer = self.script(TOKENIZER.decode(context), rng)
        text = await answer if asyncio.iscoroutine(answer) else answer
        ids = [*TOKENIZER.encode(text, add_special_tokens=False), TOKENIZER.eos_token_id]
        finish = "stop" if len(ids) <= sampling.max_tokens else "length"
        ids = ids[: sampling.max_tokens]
        self.log.append((tuple(context), ids))
        return Answer(ids, [-rng.random() for _ in ids], finish)


class Scripted(Model):
    name = "scripted tokens"

    def __init__(self, script: Callable[[str, random.Random], Any], window: int = 100_000) -> None:
        self.sampler = ScriptedSampler(script, window)
        pieces = find_pieces(TOKENIZER, None, False, {})
        self.vocabulary = Vocabulary(TOKENIZER, pieces, [TOKENIZER.eos_token_id])

    def open(self, system: str = "") -> Conversation:
        return TokenConversation(self.sampler, self.vocabulary, system)


def plays_down(text: str, rng: random.Random) -> str:
    return PLAN if "numbered" in text.rpartition("<|user|>")[2] or "List" in text.rpartition("<|user|>")[2] else DOWN


def drunk(text: str, rng: random.Random) -> str:
    return f"Thought: {rng.random()}\nAction: {rng.choice(['down', 'down', 'up'])}"


TASKS = [TaskRef(COUNTER, "counter/train/0001"), TaskRef(COUNTER, "counter/train/0003")]


def collect(
    model: Scripted,
    agent: str | AdaPlanAgent = "react",
    *,
    roles: Sequence[Provenance] = BOTH,
    tasks: Sequence[TaskRef] = TASKS,
    seed: int = 0,
    max_tokens: int = 200,
    sampler: Any = None,
    **config: Any,
) -> list[Group]:
    settings = RolloutConfig(envs=COUNTER, **{"group_size": 3, **config})
    collector = Collector(settings)
    player = make_agent(agent, model, temperature=1.0, max_tokens=max_tokens) if isinstance(agent, str) else agent
    try:
        return asyncio.run(collector.collect(player, sampler or model.sampler, tasks, roles, seed))
    finally:
        collector.close()


def trained_text(group: Group, member: int = 0) -> list[str]:
    """The trained stretches of a member's only sequence."""
    (sequence,) = group.rollouts[member].sequences
    parts: list[list[int]] = [[]]
    for token, trained in zip(sequence.ids, sequence.trained, strict=True):
        if trained:
            parts[-1].append(token)
        elif parts[-1]:
            parts.append([])
    return [TOKENIZER.decode(part) for part in parts if part]


def test_1_only_sampled_tokens_of_the_chosen_roles_are_trained() -> None:
    end = "<|end|>"
    groups = collect(Scripted(plays_down), "adaplan")
    planner_and_executor = trained_text(groups[0])
    assert set(planner_and_executor) == {PLAN + end, DOWN + end}
    executor = collect(Scripted(plays_down), "adaplan", roles=parse_roles(["executor"]))
    assert set(trained_text(executor[0])) == {DOWN + end}
    planner = collect(Scripted(plays_down), "adaplan", roles=parse_roles(["planner"]))
    assert set(trained_text(planner[0])) == {PLAN + end}
    assert executor[0].rollouts[0].sequences[0].ids == planner[0].rollouts[0].sequences[0].ids


def test_1b_a_prompt_or_observation_with_the_very_same_text_is_not_trained() -> None:
    # "down" and the end token stand in prompts too; each turn trains exactly one answer and its one end token.
    groups = collect(Scripted(plays_down))
    (sequence,) = groups[0].rollouts[0].sequences
    ends = [position for position, token in enumerate(sequence.ids) if token == TOKENIZER.eos_token_id]
    assert sum(sequence.trained[position] for position in ends) == groups[0].rollouts[0].episode.steps < len(ends)


def test_2_a_sequence_is_exactly_what_the_policy_read_and_wrote() -> None:
    model = Scripted(drunk)
    groups = collect(model, group_size=2, tasks=TASKS[:1], concurrency=1)
    for rollout in groups[0].rollouts:
        (sequence,) = rollout.sequences
        calls = [
            call for call in model.sampler.log if sequence.ids[: len(call[0]) + len(call[1])] == (*call[0], *call[1])
        ]
        assert len(calls) == rollout.episode.steps
        for read, wrote in calls:
            assert list(sequence.ids[len(read) : len(read) + len(wrote)]) == wrote
            assert all(sequence.trained[len(read) : len(read) + len(wrote)])
        last_read, last_wrote = calls[-1]
        assert len(sequence) == len(last_read) + len(last_wrote)
        assert sequence.logprobs is not None
        for trained, logprob in zip(sequence.trained, sequence.logprobs, strict=True):
            assert (logprob < 0) == trained


def test_3_an_answer_is_cut_at_its_budget_and_the_cut_tokens_are_trained() -> None:
    groups = collect(Scripted(lambda text, rng: "x" * 500), max_tokens=20, max_steps=2)
    assert trained_text(groups[0]) == ["x" * 20, "x" * 20]


def test_3b_a_conversation_that_outgrows_its_budget_ends_the_episode_and_keeps_its_turns() -> None:
    full = collect(Scripted(lambda text, rng: "Action: up"))[0].rollouts[0]
    length = len(full.sequences[0])
    groups = collect(Scripted(lambda text, rng: "Action: up", window=length - 40), max_tokens=20)
    rollout = groups[0].rollouts[0]
    assert rollout.episode.stop_reason is StopReason.CONTEXT
    assert not rollout.lost
    assert 0 < rollout.episode.steps < full.episode.steps
    assert len(trained_text(groups[0])) == rollout.episode.steps


def test_4_every_turn_and_every_episode_is_there() -> None:
    groups = collect(Scripted(drunk), group_size=5)
    assert [group.task for group in groups] == TASKS
    for group in groups:
        assert [rollout.episode.repeat for rollout in group.rollouts] == list(range(5))
        for member, rollout in enumerate(group.rollouts):
            said = [text.removesuffix("<|end|>") for text in trained_text(group, member)]
            assert said == [turn.raw for turn in rollout.episode.turns]


def test_5_a_hung_episode_ends_at_its_deadline_and_the_others_go_on() -> None:
    async def hang() -> str:
        await asyncio.sleep(60)
        return DOWN

    first: list[bool] = []

    def script(text: str, rng: random.Random) -> Any:
        first.append(True)
        return hang() if len(first) == 1 else DOWN

    groups = collect(Scripted(script), deadline=0.3)
    reasons = [rollout.episode.stop_reason for group in groups for rollout in group.rollouts]
    assert reasons.count(StopReason.DEADLINE) == 1
    assert reasons.count(StopReason.SUCCESS) == 5


def test_6_a_group_survives_a_member_that_errs() -> None:
    calls: list[int] = []

    def script(text: str, rng: random.Random) -> str:
        calls.append(1)
        if len(calls) == 2:
            raise ModelError("the server is gone")
        return DOWN

    groups = collect(Scripted(script), concurrency=1)
    assert [rollout.lost for rollout in groups[0].rollouts].count(True) == 1
    assert len(groups[0].survivors) == 2
    assert len(groups[1].survivors) == 3


def test_7_members_share_the_task_and_not_the_seed() -> None:
    groups = collect(Scripted(drunk), group_size=4)
    for group in groups:
        episodes = [rollout.episode for rollout in group.rollouts]
        assert {episode.task_id for episode in episodes} == {group.task.task_id}
        assert len({episode.seed for episode in episodes}) == 4
        assert len({episode.turns[0].raw for episode in episodes}) == 4
        assert len({episode.turns[0].observation for episode in episodes}) == 1
    twice = collect(Scripted(drunk), tasks=[TASKS[0], TASKS[0]])
    assert twice[0].rollouts[0].episode.seed != twice[1].rollouts[0].episode.seed


def test_8_equal_seeds_give_equal_groups_at_any_concurrency() -> None:
    def play(concurrency: int, seed: int = 0) -> list[Any]:
        groups = collect(Scripted(drunk), group_size=4, concurrency=concurrency, seed=seed)
        return [
            (replace(rollout.episode, seconds=0.0), rollout.sequences) for group in groups for rollout in group.rollouts
        ]

    assert play(1) == play(8) == play(3)
    assert play(1) != play(1, seed=1)


def test_9_branches_that_were_dropped_are_not_trained() -> None:
    def script(text: str, rng: random.Random) -> str:
        return f"1. down {rng.randrange(10**6)}" if plays_down(text, rng) == PLAN else DOWN

    model = Scripted(script)
    agent = AdaPlanAgent(
        model, candidates=3, select=lambda request, plans: 1, sampling=Sampling(temperature=1.0, max_tokens=100)
    )
    group = collect(model, agent, group_size=2, tasks=TASKS[:1])[0]
    for member, rollout in enumerate(group.rollouts):
        plans = [text for text in trained_text(group, member) if text.startswith("1.")]
        assert len(plans) == rollout.episode.steps
    assert sum("1. down" in TOKENIZER.decode(wrote) for _, wrote in model.sampler.log) == 3 * sum(
        rollout.episode.steps for rollout in group.rollouts
    )


def test_10_another_model_s_tokens_are_not_trained() -> None:
    planner, executor = Scripted(lambda text, rng: PLAN), Scripted(lambda text, rng: DOWN)
    agent = AdaPlanAgent(executor, planner=planner, sampling=Sampling(temperature=1.0, max_tokens=100))
    for sampler, text in ((executor.sampler, DOWN), (planner.sampler, PLAN)):
        group = collect(executor, agent, sampler=sampler)[0]
        assert {part.removesuffix("<|end|>") for part in trained_text(group)} == {text}


def test_an_agent_without_conversations_is_refused() -> None:
    with pytest.raises(ConfigError, match="conversations"):
        collect(Scripted(plays_down), make_agent("random"))  # type: ignore[arg-type]


def test_unknown_roles_are_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'planner'"):
        parse_roles(["planer"])
    with pytest.raises(ConfigError, match="no role"):
        parse_roles([])


# -- 11 ------------------------------------------------------------------------------------------------------------


def test_every_sampled_token_is_of_the_turn_in_which_it_was_sampled() -> None:
    model = Scripted(drunk)
    for group in collect(model):
        for rollout in group.rollouts:
            (sequence,) = rollout.sequences
            turns = rollout.episode.turns
            assert len(sequence.turn_ends) == len(turns)
            numbers = sequence.spread([float(number) for number in range(1, len(turns) + 1)])
            for number, turn in enumerate(turns, 1):
                mine = [
                    token
                    for token, trained, of in zip(sequence.ids, sequence.trained, numbers, strict=True)
                    if trained and of == number
                ]
                assert TOKENIZER.decode(mine, skip_special_tokens=True) == turn.raw
