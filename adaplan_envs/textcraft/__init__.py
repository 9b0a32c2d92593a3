"""TextCraft: see `adaplan_envs.textcraft.env`."""
