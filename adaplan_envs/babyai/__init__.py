"""BabyAI: see `adaplan_envs.babyai.env`."""

from adaplan_envs.errors import require

require("minigrid", "babyai")  # every module of this package stands on it
