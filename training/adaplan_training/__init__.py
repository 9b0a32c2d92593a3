"""Training of language-model agents on text environments: PilotRL, GRPO and SFT in plain torch."""
