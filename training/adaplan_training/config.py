"""A training run as data. `adaplan_training.recipe` reads it from YAML."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from adaplan_envs.errors import ConfigError
from adaplan_training.losses import LossConfig


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """What is trained, and in which precision.

    Attributes:
        spec: ``hf:PATH_OR_ID`` or ``smollm2``.
        chat_template: instead of the model's own: ``plain``, a Jinja file or Jinja text.
        device: such as ``cuda:1``; None takes a GPU where there is one.
        precision: ``float32``; ``mixed`` (weights in float32, most of the arithmetic in bfloat16); ``bfloat16`` (the
            weights too: for LoRA on a frozen model, or where nothing else fits).
        sampler: ``same`` weights as in training, or a ``bfloat16`` copy of them, which is faster and costs its memory.
        lora_rank: train low-rank adapters of this rank instead of all weights; 0 trains all.
        lora_alpha: scale of the adapters; None for twice the rank.
        gradient_checkpointing: compute activations twice instead of keeping them.
        compile: run the training passes through torch.compile (half a minute at first).
    """

    spec: str
    chat_template: str | None = None
    device: str | None = None
    precision: Literal["float32", "mixed", "bfloat16"] = "float32"
    sampler: Literal["same", "bfloat16"] = "same"
    lora_rank: int = 0
    lora_alpha: float | None = None
    gradient_checkpointing: bool = False
    compile: bool = False


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """Who plays.

    Attributes:
        name: an agent that asks a language model, as for `make_agent`.
        settings: further keywords of it.
        temperature: of rollouts; evaluation has its own.
        turn_tokens: most tokens of one answer.
        episode_tokens: most tokens of a conversation, prompts and observations included; None for the model's limit.
        executor: a model, such as ``hf:DIR``, that acts and is frozen, while the policy plans; for agents with a
            separate planner (``adaplan``, ``mpo``). For a frozen planner give ``settings: {planner: hf:DIR}``.
    """

    name: str = "adaplan"
    settings: dict[str, Any] = field(default_factory=dict)
    temperature: float = 1.0
    turn_tokens: int = 256
    episode_tokens: int | None = None
    executor: str | None = None


@dataclass(frozen=True, slots=True)
class PlansConfig:
    """Where plans come from in stages that don't leave them to the policy.

    Attributes:
        frontier: for ``plans: frontier``: ``expert`` (the environment's own, from every state), or a model such as
            ``openai:NAME``, whose best candidate for a task is kept for all its episodes.
        candidates: plans of which one is selected, for ``plans: select`` and of a frontier model.
        cache: folder in which a frontier model's plans are kept.
    """

    frontier: str = "expert"
    candidates: int = 4
    cache: str | None = None


@dataclass(frozen=True, slots=True)
class RolloutConfig:
    """What is played.

    Attributes:
        envs: names with commas, or ``all``.
        settings: further keywords of the environments.
        split: of which tasks.
        tasks: how many of each environment, spread over the split; None for all.
        max_difficulty: leave out harder tasks, in evaluation too; None plays all.
        groups: tasks of one step.
        group_size: episodes of each task.
        mini_batch: groups of one optimiser step; None for all at once. Dead groups don't count.
        max_steps: limit of actions; None for each environment's own.
        deadline: wall-clock seconds of one episode; with one, a run can't be repeated exactly.
        concurrency: episodes at once.
    """

    envs: str = "all"
    settings: dict[str, Any] = field(default_factory=dict)
    split: str = "train"
    tasks: int | None = None
    max_difficulty: int | None = None
    groups: int = 8
    group_size: int = 8
    mini_batch: int | None = None
    max_steps: int | None = None
    deadline: float | None = None
    concurrency: int = 64


@dataclass(frozen=True, slots=True)
class RewardConfig:
    """What an episode is worth, beside the terms and weights of its stage.

    Attributes:
        judge: of the terms ``format``, ``adherence``, ``e2e`` and ``plan_quality``: ``rules``, a model such as
            ``openai:NAME``, or ``module:judge`` with a `Judge` of yours.
        slack: by the rules, an episode is efficient with at most ``1 + slack`` times the expert's steps.
        scale: divide advantages by the standard deviation of the group; without: Dr. GRPO.
        overlong_buffer: tokens in front of `AgentConfig.episode_tokens` over which a penalty of up to 1 grows.
        mask_overlong: don't train on episodes that ran out of tokens.
        turn_weight: weight of an advantage that each turn has besides its episode's, among the turns of its group that
            saw the same observation; 0 leaves it out, as the paper does. See `turn_advantages`.
        turn_discount: how much less a reward counts with every turn that it comes later; for `turn_weight`.
    """

    judge: str = "rules"
    slack: float = 0.5
    scale: bool = True
    overlong_buffer: int = 0
    mask_overlong: bool = False
    turn_weight: float = 0.0
    turn_discount: float = 0.95


@dataclass(frozen=True, slots=True)
class DataConfig:
    """What is imitated (``algorithm: sft``).

    Attributes:
        files: demonstrations, recorded runs or chats, see ``docs/data.md``.
        batch: sequences of one optimiser step.
    """

    files: list[str] = field(default_factory=list)
    batch: int = 256


@dataclass(frozen=True, slots=True)
class OptimConfig:
    """How weights change.

    Attributes:
        name: ``adamw``; or ``muon``, with which a model of random weights needs fewer steps: its
            matrices by Muon, embeddings, output layer and vectors by AdamW.
        lr: peak of the learning rate.
        schedule: after the warm-up: ``constant``, or ``cosine`` down to 0.
        warmup: share of all steps over which the learning rate rises from 0.
        weight_decay: of matrices; vectors (norms, biases) have none.
        clip: the gradient's norm is cut at this; 0 leaves it.
        betas: decay of AdamW's averages.
        batch_tokens: tokens in one forward pass, padding included; None for as many as are fast: what the caches of a
            CPU hold, on a GPU more.
    """

    name: Literal["adamw", "muon"] = "adamw"
    lr: float = 1e-6
    schedule: Literal["constant", "cosine"] = "constant"
    warmup: float = 0.0
    weight_decay: float = 0.0
    clip: float = 1.0
    betas: tuple[float, float] = (0.9, 0.999)
    batch_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """A stretch of a run. An ordinary run has one.

    Attributes:
        name: for the logs.
        epochs: passes over all tasks (or all data). Give this or `steps`.
        steps: how many steps.
        roles: whose tokens are trained: ``planner``, ``executor``. SFT can have a model that knows no language yet
            predict ``observation`` and ``given`` (prompts) too.
        rewards: term -> weight, see ``docs/training.md``. A weight of 0 has the term logged and not trained on.
        plans: where they come from: ``own`` (the agent's usual way), ``select`` (the policy writes
            `PlansConfig.candidates` and one is selected), ``frontier`` (see `PlansConfig`).
        agent: settings of the agent in the rollouts of this stage, on top of the run's. Evaluation sees neither these
            nor `plans`.
        joint: its steps alternate with those of the stage before.
    """

    name: str = "train"
    epochs: float | None = None
    steps: int | None = None
    roles: list[str] = field(default_factory=lambda: ["planner", "executor"])
    rewards: dict[str, float] = field(default_factory=lambda: {"format": 1.0, "e2e": 1.0})
    plans: Literal["own", "select", "frontier"] = "own"
    agent: dict[str, Any] = field(default_factory=dict)
    joint: bool = False


@dataclass(frozen=True, slots=True)
class EvalConfig:
    """How the policy is tested while it learns, by the evaluation runner.

    Attributes:
        every: steps between tests, beside one before the first and one after the last; 0 for none at all.
        envs: None for those of the rollouts.
        split: of which tasks.
        episodes: tasks of each environment.
        repeats: attempts at each task; more than one says something at a temperature above 0 only.
        temperature: 0 plays greedily.
    """

    every: int = 0
    envs: str | None = None
    split: str = "test"
    episodes: int = 50
    repeats: int = 1
    temperature: float = 0.0


@dataclass(frozen=True, slots=True)
class LogConfig:
    """What is written.

    Attributes:
        checkpoint_every: steps between checkpoints, beside the last one.
        episodes_every: steps between those whose episodes are kept with all turns; 0 keeps none.
        tensorboard: write TensorBoard's files too.
        wandb: a project of Weights & Biases to log to.
    """

    checkpoint_every: int = 10
    episodes_every: int = 0
    tensorboard: bool = True
    wandb: str | None = None


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """A training run; see the parts.

    Attributes:
        model: what is trained.
        algorithm: ``grpo`` or ``sft``.
        out: folder of the run.
        seed: of everything.
    """

    model: ModelConfig
    algorithm: Literal["grpo", "sft"] = "grpo"
    agent: AgentConfig = field(default_factory=AgentConfig)
    plans: PlansConfig = field(default_factory=PlansConfig)
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    reward: RewardConfig = field(default_factory=RewardConfig)
    data: DataConfig = field(default_factory=DataConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    stages: list[Stage] = field(default_factory=lambda: [Stage(epochs=1)])
    eval: EvalConfig = field(default_factory=EvalConfig)
    log: LogConfig = field(default_factory=LogConfig)
    out: str = "runs/train"
    seed: int = 0

    def __post_init__(self) -> None:
        check_values(self)


def check_values(config: TrainConfig) -> None:
    """Raise for numbers that make no sense, before anything is loaded.

    Raises:
        ConfigError: one doesn't.
    """
    rollout, agent, optim = config.rollout, config.agent, config.optim
    wrong = [
        f"{name} is {value}; it must be {valid}"
        for name, value, fine, valid in (
            (
                "agent.temperature",
                agent.temperature,
                agent.temperature > 0,
                "above 0, or members would be equal",
            ),
            ("agent.turn_tokens", agent.turn_tokens, agent.turn_tokens >= 1, "1 or more"),
            ("rollout.groups", rollout.groups, rollout.groups >= 1, "1 or more"),
            ("rollout.group_size", rollout.group_size, rollout.group_size >= 2, "2 or more: an advantage compares"),
            (
                "rollout.mini_batch",
                rollout.mini_batch,
                rollout.mini_batch is None or rollout.mini_batch >= 1,
                "1 or more",
            ),
            ("rollout.concurrency", rollout.concurrency, rollout.concurrency >= 1, "1 or more"),
            ("data.batch", config.data.batch, config.data.batch >= 1, "1 or more"),
            ("plans.candidates", config.plans.candidates, config.plans.candidates >= 1, "1 or more"),
            ("optim.lr", optim.lr, optim.lr >= 0, "0 or more"),
            ("optim.warmup", optim.warmup, 0 <= optim.warmup < 1, "a share of all steps, at least 0 and below 1"),
            ("optim.clip", optim.clip, optim.clip >= 0, "0 or more"),
            (
                "optim.batch_tokens",
                optim.batch_tokens,
                optim.batch_tokens is None or optim.batch_tokens >= 1,
                "1 or more",
            ),
            ("log.checkpoint_every", config.log.checkpoint_every, config.log.checkpoint_every >= 1, "1 or more"),
        )
        if not fine
    ]
    if not config.stages:
        wrong.append("stages is empty; give at least one")
    for number, stage in enumerate(config.stages):
        if (stage.epochs is None) == (stage.steps is None):
            wrong.append(f"stages.{number}: give either epochs or steps")
        elif (stage.steps if stage.epochs is None else stage.epochs) <= 0:  # type: ignore[operator]
            wrong.append(f"stages.{number}: epochs or steps must be above 0")
        if number == 0 and stage.joint:
            wrong.append("stages.0 is joint, but there is no stage before it")
        if config.algorithm == "grpo" and not any(stage.rewards.values()):
            wrong.append(f"stages.{number}.rewards has no weight but 0; nothing could be learned")
    if config.algorithm == "sft" and not config.data.files:
        wrong.append("data.files is empty; sft needs demonstrations, such as data.files=[demos.jsonl]")
    for settings in (agent.settings, *(stage.agent for stage in config.stages)):
        if config.algorithm == "grpo" and settings.get("admissible"):
            wrong.append(
                "agent setting 'admissible': answers held to a list have other probabilities than the policy's; "
                "leave it out of training"
            )
        for name in ("temperature", "top_p", "top_k", "max_tokens", "stop"):
            if name in settings:
                wrong.append(
                    f"agent setting {name!r}: training samples from the whole distribution; "
                    "set agent.temperature and agent.turn_tokens"
                )
    if wrong:
        raise ConfigError("; ".join(dict.fromkeys(wrong)))
