"""``pilot-tiny``: a policy of 1.4 million weights that comes with the package, trained on the suite from nothing."""

from __future__ import annotations

from pathlib import Path

from adaplan_agents.models.hf import HFModel
from adaplan_agents.models.hf import load as load_hf
from adaplan_envs.errors import ConfigError

WEIGHTS = Path(__file__).parent.parent / "pilot_tiny"


def load(
    rest: str,
    /,
    *,
    dtype: str | None = None,
    device: str | None = None,
    window: int | None = None,
) -> HFModel:
    """Load ``pilot-tiny``. It plays as the agent ``brief``; to other prompts it has nothing to say.

    Args:
        rest: nothing.
        dtype: see `adaplan_agents.models.hf.load`, as for the following; default float32, in which it was trained.
        device: such as ``cuda:1``.
        window: most tokens of a conversation.

    Raises:
        MissingExtraError: transformers or torch is not installed.
    """
    if rest:
        raise ConfigError(f"pilot-tiny is one model; there is no {rest!r} of it. For others: hf:PATH_OR_ID")
    return load_hf(WEIGHTS, name="pilot-tiny", dtype=dtype or "float32", device=device, window=window)
