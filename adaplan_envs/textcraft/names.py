"""How the default rules read an item's name: forgiving where only one item can be meant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from adaplan_envs.textcraft.recipes import RecipeBook, load_book

_SEPARATORS = str.maketrans("", "", " _-")
_PLURALS = (("ch", "ches"), ("sh", "shes"), ("s", "ses"), ("x", "xes"), ("y", "ies"), ("f", "ves"), ("", "s"))
"""Ending in the singular, and in the plural."""


class Names:
    """Resolves what a player wrote to the name of an item or a group."""

    def __init__(self, valid: Iterable[str]) -> None:
        self._exact = {name: name for name in sorted(valid)}
        self._loose: dict[str, str | None] = {}
        for name in self._exact:
            for form in set(_forms(name)):
                # None: two items are meant. `brick` and `bricks` are two, only their exact names will do.
                self._loose[form] = name if form not in self._loose else None
        self._longest = max(map(len, self._exact)) * 2

    def find(self, text: str) -> str | None:
        """Return the item that `text` means, or None. Blanks, underscores, hyphens and plural don't matter."""
        if text in self._exact:
            return text
        return self._loose.get(text.translate(_SEPARATORS)) if len(text) <= self._longest else None


def _forms(name: str) -> Iterator[str]:
    """Yield `name` as given, in the plural and in the singular, all without separators."""
    compact = name.translate(_SEPARATORS)
    yield compact
    for singular, plural in _PLURALS:
        if compact.endswith(singular):
            yield compact.removesuffix(singular) + plural
        if compact.endswith(plural):
            yield compact.removesuffix(plural) + singular


def every_name(book: RecipeBook) -> set[str]:
    """Return the names of all items and groups of the game."""
    return set(book.items).union(book.tags, *book.tags.values())


@cache
def load_names() -> Names:
    """Return the names of the recipes that come with the package."""
    return Names(every_name(load_book()))
