"""What the paper's tables are made of, as data: which runs are trained, and who plays with what they made."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from adaplan_envs.errors import UnknownNameError

START = "start"
"""The model that every row begins with: an instruct model, or at ``tiny`` scale the one that `tiny/start` makes."""


@dataclass(frozen=True, slots=True)
class Training:
    """A run.

    Attributes:
        recipe: its name within the scale's folder.
        overrides: of the recipe.
        takes: dotted key -> the training whose model it names, or `START`.
    """

    recipe: str
    overrides: tuple[str, ...] = ()
    takes: Mapping[str, Training | str] = field(default_factory=lambda: {"model.spec": START})

    @property
    def name(self) -> str:
        """Of its folder: the same for the same run, in whichever table."""
        own = "".join(f"_{each}" for each in self.overrides)
        name = self.recipe + "".join(letter if letter.isalnum() else "-" for letter in own).rstrip("-")
        # Names of models may be long, and a file system takes 255 bytes.
        return name if len(name) <= 80 else f"{name[:70]}-{hashlib.sha256(own.encode()).hexdigest()[:8]}"


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a table.

    Attributes:
        label: in words.
        training: whose model plays, as its recipe says; None for the untrained one.
        agent: of an untrained one.
    """

    label: str
    training: Training | None = None
    agent: str = "adaplan"


@dataclass(frozen=True, slots=True)
class Table:
    """A table of success rates.

    Attributes:
        title: what it shows.
        rows: its lines.
        second_model: whether it repeats another table with a second model.
    """

    title: str
    rows: tuple[Row, ...]
    second_model: bool = False


SFT = Training("sft")
VANILLA = Training("grpo")
PILOTRL = Training("pilotrl")
MPO = Training("mpo", takes={"model.spec": START, "agent.executor": START})
PLANNER = Training("planner", takes={"model.spec": START, "agent.executor": START})
EXECUTOR = Training("executor", takes={"model.spec": START, "agent.settings.planner": PLANNER})


def ordered(label: str, stages: str) -> Row:
    """Return the row of the three stages in another order."""
    return Row(label, Training("pilotrl", (f"stages={stages}",)))


_MAIN = (
    Row("naive, untrained", agent="naive"),
    Row("ReAct, untrained", agent="react"),
    Row("MPO", MPO),
    Row("SFT", SFT),
    Row("vanilla RL", VANILLA),
    Row("PilotRL", PILOTRL),
)
_ORDERS = (
    Row("1 -> 2 -> 3", PILOTRL),
    ordered("1 & 2 & 3", "[1&2&3]"),
    ordered("2 -> 3", "[2,3]"),
    ordered("1 -> 3", "[1,3]"),
    ordered("1 -> 2", "[1,2]"),
    ordered("2 -> 1 -> 3", "[2,1,3]"),
)
_PARADIGMS = (
    Row("ReAct, untrained", agent="react"),
    Row("AdaPlan, untrained", agent="adaplan"),
    Row("ReAct, RL", VANILLA),
    ordered("AdaPlan, RL by the same rewards", "[3]"),
    Row("AdaPlan, PilotRL", PILOTRL),
)
_MODELS = (Row("unified, one model", PILOTRL), Row("isolated, two models", EXECUTOR))

TABLES: Mapping[str, Table] = MappingProxyType(
    {
        "1": Table("Main comparison", _MAIN),
        "2": Table("Stages: order and subsets, at equal epochs", _ORDERS),
        "3": Table("AdaPlan against ReAct", _PARADIGMS),
        "4": Table("One model for both roles against two", _MODELS),
        "6": Table("Stages, second model", _ORDERS, second_model=True),
        "7": Table("AdaPlan against ReAct, second model", _PARADIGMS, second_model=True),
        "8": Table("One model against two, second model", _MODELS, second_model=True),
        "9": Table("Frontier models as plan source and judge", ()),
        "10": Table("Agreement of judges with the simulators", ()),
        "figure3": Table("Reward terms over the stages", ()),
    }
)


def find_table(name: str) -> Table:
    """Return the table that `name` means: ``1`` ... ``10`` (there is no 5: it lists the data), or ``figure3``.

    Raises:
        UnknownNameError: none.
    """
    if name not in TABLES:
        raise UnknownNameError("table", name, TABLES)
    return TABLES[name]


def frontier_rows(models: tuple[str, ...]) -> tuple[Row, ...]:
    """Return the rows of Table 9: PilotRL with plans and judgements of each of `models`, and of the simulators."""
    rows = [Row("expert and rules (simulator)", PILOTRL)]
    rows += [Row(model, Training("pilotrl", (f"plans.frontier={model}", f"reward.judge={model}"))) for model in models]
    return tuple(rows)


PAPER_CLAIMS = (
    "The paper's own figures are left blank: only its abstract was at hand, which says that LLaMA3.1-8B-Instruct with "
    "PilotRL is 3.60% above GPT-4o and 55.78% above GPT-4o-mini."
)
DIFFERENCES = (
    "Environments are real simulators with this project's own wording and tasks (split sizes as in the paper's "
    "Table 5); the paper has a frontier model simulate them.",
    "Success is what the simulator says. Rewards come from the simulator's rules and stage 1's plans from the expert "
    "unless a frontier model is named (--frontier, Table 9; reward.judge and plans.frontier).",
    "The expert's plan in stage 1 is revised after every observation; a frontier model's best candidate stays for the "
    "whole episode.",
    "Subsets of stages are scaled to 4 epochs in all, in proportion 1 : 2 : 1, and each stage is rounded up to whole "
    "steps; joint stages alternate step by step.",
    "Isolated models: the planner is trained first (2 epochs, executor frozen), then the executor (2 epochs, that "
    "planner frozen).",
    "Intervals are 95% bootstrap intervals over tasks, repeats of a task by several seeds kept together.",
    "Closed models of the paper's comparison are not rows: adaplan eval --model openai:NAME plays them.",
)
