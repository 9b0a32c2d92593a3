"""IQA: see `adaplan_envs.iqa.env`."""
