"""ALFWorld: see `adaplan_envs.alfworld.env`."""
