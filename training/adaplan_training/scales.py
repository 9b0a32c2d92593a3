"""How large a study is: the paper's own size, and what runs on two cores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Scale:
    """A size. Its recipes are those in the folder of its name.

    Attributes:
        models: the first and the second: spec strings, or keys of `weights`.
        differences: from the paper, a sentence each.
        weights: models that are made here, from nothing -> how many weights they get.
        vocabulary: of their tokenizer.
        envs: of the evaluations.
        demos: demonstrated tasks for each that reinforcement learning plays: a model made from nothing has to see many.
    """

    models: tuple[str, str]
    differences: tuple[str, ...]
    weights: Mapping[str, int] = field(default_factory=dict)
    vocabulary: int = 2048
    envs: str = "all"
    demos: int = 15


_SEEDS = "The mean of so few seeds and tasks has wide intervals: differences within them mean nothing."

SCALES: Mapping[str, Scale] = MappingProxyType(
    {
        "paper": Scale(
            ("hf:Qwen/Qwen2.5-7B-Instruct", "hf:meta-llama/Llama-3.1-8B-Instruct"),
            ("Sampler and trainer are this project's own, not verl's.",),
        ),
        "tiny": Scale(
            ("3M", "10M"),
            (
                "Models have about 3 million weights (10 million for the second model), made from nothing; tiny/start, "
                "an SFT on a few demonstrations in every format, takes the place of the instruct model, one for all "
                "seeds.",
                "20 training tasks of each environment, groups of 8 members, 8 groups a step, lr 1e-4, 2 candidate "
                "plans.",
                "At most 40 actions, and plans are revised on deviation alone: revising after every action makes the "
                "conversation several times as long.",
                _SEEDS,
            ),
            {"3M": 3_000_000, "10M": 10_000_000},
        ),
        "mini": Scale(
            ("200k", "400k"),
            (
                "One environment, MAZE, and of it the mazes of at most 8 moves, trained and tested, within 12 actions: "
                "nothing is out of domain.",
                "Models have about 200,000 weights (400,000 for the second model), made from nothing; mini/start, an "
                "SFT on demonstrations in every format, takes the place of the instruct model, one for all seeds.",
                "Prompts are the brief ones: goal and observation, no rules.",
                "40 training tasks, groups of 8 members, 8 groups a step, 4 updates of 2 groups; Muon, lr 1e-3 falling "
                "to 0. SFT: 2 epochs of 880 demonstrations.",
                "Stage 2 takes the policy's plan as it is: nothing is selected among candidates.",
                "Played at temperature 1: the policy as it is, not its likeliest answer.",
                _SEEDS,
            ),
            {"200k": 200_000, "400k": 400_000},
            vocabulary=640,
            envs="maze",
            demos=22,
        ),
    }
)
