"""Six text tasks on real simulators behind one Gymnasium interface.

Importing this package registers ``AdaPlan/ALFWorld-v0``, ``BabyAI-v0``, ``TextCraft-v0``, ``Wordle-v0``, ``Maze-v0``
and ``IQA-v0``. ``gymnasium.make("adaplan_envs:AdaPlan/Wordle-v0")`` does so by itself.
"""

from adaplan_envs.core import TextEnv
from adaplan_envs.registration import SUITE, installed_ids, register, resolve_id
from adaplan_envs.spaces import TextSpace
from adaplan_envs.types import ActionStatus, Expert, Outcome, Snapshot, StepInfo, StopReason, Task

__all__ = [
    "SUITE",
    "ActionStatus",
    "Expert",
    "Outcome",
    "Snapshot",
    "StepInfo",
    "StopReason",
    "Task",
    "TextEnv",
    "TextSpace",
    "installed_ids",
    "register",
    "resolve_id",
]

register()
