"""MAZE: see `adaplan_envs.maze.env`."""
