"""Prompts are files, ``prompts/KIND/NAME.md``, with ``{{name}}`` where a value goes. A user's folder replaces them.

``prompts/KIND/brief/`` holds the least that can be said, for models that were trained on the suite.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from adaplan_envs.errors import ConfigError, UnknownNameError, check_name

BRIEF = "brief"
_PLACE = re.compile(r"\{\{(\w+)\}\}")


class Prompts:
    """The prompts of one kind of agent, or of a judge.

    Args:
        kind: folder of the built-in ones, such as ``react``.
        folder: a user's own files, or ``brief`` for the built-in short ones; each replaces the built-in one of the same
            name, the others stay.
        package: which holds the built-in ones, in ``prompts/``.

    Raises:
        ConfigError: no such folder, or a file there has a placeholder that the built-in one lacks.
        UnknownNameError: a file there has a name that no built-in one has.
    """

    def __init__(self, kind: str, folder: str | Path | None = None, package: str = "adaplan_agents") -> None:
        self.texts = dict(_built_in(kind, package))
        self.replaced: tuple[str, ...] = ()
        if folder is None:
            return
        if str(folder) == BRIEF:
            folder = Path(str(files(package))) / "prompts" / kind / BRIEF
        if not Path(folder).is_dir():
            raise ConfigError(f"prompts: {str(folder)!r} is no folder")
        own = {path.stem: path for path in sorted(Path(folder).glob("*.md"))}
        for name, path in own.items():
            check_name(f"prompt of {kind}", name, self.texts)
            text = path.read_text(encoding="utf-8").rstrip("\n")
            valid = set(_PLACE.findall(self.texts[name]))
            for place in _PLACE.findall(text):
                if place not in valid:
                    raise UnknownNameError(f"placeholder in {path}", place, valid)
            self.texts[name] = text
        self.replaced = tuple(own)

    def render(self, name: str, **values: object) -> str:
        """Return prompt `name` with its placeholders filled; values are never read as templates themselves."""
        return _fill(self.texts[name], values)

    def around(self, name: str, place: str, **values: object) -> tuple[str, str]:
        """Return the prompt in front of and behind `place`, so that this value can keep its own provenance."""
        before, _, after = self.texts[name].partition("{{" + place + "}}")
        return _fill(before, values), _fill(after, values)


def _fill(text: str, values: Mapping[str, object]) -> str:
    return _PLACE.sub(lambda match: str(values[match.group(1)]), text)


@lru_cache
def _built_in(kind: str, package: str) -> Mapping[str, str]:
    folder = files(package) / "prompts" / kind
    found = sorted((item for item in folder.iterdir() if item.name.endswith(".md")), key=lambda item: item.name)
    return {item.name.removesuffix(".md"): item.read_text(encoding="utf-8").rstrip("\n") for item in found}
