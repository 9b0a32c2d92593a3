"""``pilot-tiny``: a policy of 1.4 million weights that comes with the package, trained on the suite from nothing.

It plays as the agent ``brief``; to other prompts it has nothing to say.
"""

from __future__ import annotations

from pathlib import Path

from adaplan_agents.models.hf import loader_of

WEIGHTS = Path(__file__).parent.parent / "pilot_tiny"

load = loader_of("pilot-tiny", lambda: WEIGHTS)
