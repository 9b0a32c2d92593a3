"""The commands that need environments alone: `adaplan envs`, `adaplan play` and `adaplan doctor`."""
