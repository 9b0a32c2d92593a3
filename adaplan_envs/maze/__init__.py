"""MAZE: the environment, its expert and its generator of mazes."""
