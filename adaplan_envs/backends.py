"""Who plays an environment: its own simulator, or a language model. What ``gym.make("AdaPlan/...")`` calls."""

from __future__ import annotations

import importlib
import warnings
from functools import partial
from typing import Any

from adaplan_envs.core import TextEnv
from adaplan_envs.errors import ConfigError, check_name
from adaplan_envs.registration import SUITE, Entry

_OF_TWINS = ("simulator", "simulator_options", "temperature", "prompt", "cache", "max_cost", "max_tokens")


class Maker:
    """Makes one environment of the suite.

    Args:
        entry: its line in the table.
    """

    def __init__(self, entry: Entry) -> None:
        self.entry = entry

    @property
    def real(self) -> type[TextEnv]:
        """The class of the real environment.

        Raises:
            MissingExtraError: its packages are not installed.
        """
        module, _, name = self.entry.entry_point.partition(":")
        found: type[TextEnv] = getattr(importlib.import_module(module), name)
        return found

    @property
    def metadata(self) -> dict[str, Any]:
        """What Gymnasium asks an environment's class for before it makes one."""
        return self.real.metadata if self.entry.installed else TextEnv.metadata

    def __call__(self, *, backend: str = "real", **options: Any) -> TextEnv:
        """Return the environment.

        Args:
            backend: ``real``; ``simulated``, its twin (needs ``simulator=...``); or ``auto``: the real one where it is
                installed, else the twin, with a warning.
            options: of the environment, and of its twin.

        Raises:
            UnknownNameError: no such backend.
            ConfigError: options that belong to the other backend, or no simulator.
        """
        check_name("backend", backend, ("auto", "real", "simulated"))
        simulated = backend == "simulated" or (backend == "auto" and not self.entry.installed)
        if not simulated:
            of_twin = {name: options.pop(name) for name in _OF_TWINS if name in options}
            if of_twin and backend == "real":
                raise ConfigError(f"{', '.join(of_twin)}: for simulated environments; add backend='simulated'")
            return self.real(**options)
        if options.get("simulator") is None:
            raise ConfigError(
                f"who simulates {self.entry.id}? Give simulator='openai:MODEL', another model's name, or 'scripted'"
            )
        if backend == "auto":
            warnings.warn(
                f"{self.entry.id} is played by the simulator {options['simulator']}: its own is not installed "
                f'(pip install "adaplan[{self.entry.extra}]")',
                stacklevel=2,
            )
        from adaplan_envs.simulated.twin import Twin

        if self.entry.installed or str(options["simulator"]).startswith("scripted"):
            return Twin(self.real, **options)
        from adaplan_envs.simulated.cards import CardEnv

        return Twin(partial(CardEnv, self.entry), **options)


def __getattr__(name: str) -> Any:
    # One attribute for each id, as in adaplan_envs.vector: a callable would make a spec impossible to write as JSON.
    for entry in SUITE:
        if name == entry.id.partition("/")[2].replace("-", "_"):
            return Maker(entry)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
