"""Wordle: see `adaplan_envs.wordle.env`."""
