"""LLM-simulated twins: a language model plays the environment. See `docs/simulated.md`."""
