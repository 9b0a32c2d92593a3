"""BabyAI: see `adaplan_envs.babyai.env`."""
