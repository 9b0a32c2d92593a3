"""Text from the engine's own grammar, fast.

TextWorld derives its text by parsing rules, queries and templates anew and deep-copying its context at every step of
every derivation. Here all that is parsed once, by TextWorld's own parsers, and then walked without copies. The text is
the same to the letter (tests/envs/test_alfworld_engine.py plays both side by side).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Any

from adaplan_envs.errors import SimulatorError, require

_parsing = threading.Lock()
"""TextWorld's parsers are module-level objects with state: one thread at a time."""

Args = tuple[str, ...]
Facts = Mapping[str, set[Args]]
"""Predicate -> the tuples of entity ids of which it is true now."""
Binding = Mapping[tuple[str, str], str]
"""(placeholder, its type) -> entity id."""


@dataclass(frozen=True, slots=True)
class Entity:
    """A thing of a game. The grammar's expressions read its attributes, `o.indefinite + ' ' + o.name`."""

    id: str
    type: str
    name: str
    indefinite: str = "a"
    definite: str = "the"

    def __str__(self) -> str:
        return self.name


Entities = Mapping[str, Entity]


@dataclass(frozen=True, slots=True)
class Template:
    """How an action is written and answered."""

    command: str
    feedback: str


class TextGrammar:
    """The grammar of a game.

    Args:
        source: content of a ``.twl2`` file.

    Raises:
        MissingExtraError: textworld is not installed.
    """

    def __init__(self, source: str) -> None:
        require("fast_downward", "alfworld")
        with _parsing:
            logic = require("textworld.envs.pddl.logic", "alfworld").GameLogic(domain="", grammar=source)
        self.templates = {
            name: Template(action.template, action.feedback_rule) for name, action in logic.actions.items()
        }
        self._rules: Mapping[str, list[Any]] = logic.grammar._rules

    def derive(self, start: str, facts: Facts, entities: Entities, binding: Binding) -> str:
        """Return `start` with its symbols expanded, ``#rule#`` and ``{expression|query}``."""
        return "".join(self._expand(symbol, facts, entities, binding) for symbol in _symbols(start))

    def queried(self, start: str) -> set[str]:
        """Return the predicates that `start` itself asks about, not those of the rules that it names."""
        found = set()
        for symbol in _symbols(start):
            inner = symbol.symbol if type(symbol).__name__ == "ListSymbol" else symbol
            if getattr(inner, "given", None):
                found |= {name for name, _ in _query(inner.given)}
            elif type(inner).__name__ == "NonterminalSymbol":
                return set(self._rules)  # may ask about anything
        return found

    def _rule(self, name: str, facts: Facts, entities: Entities, binding: Binding) -> str:
        for rule in self._rules.get(name, ()):
            if not rule.condition or any(True for _ in _solve(_query(rule.condition), facts, entities, binding)):
                return "".join(self._expand(symbol, facts, entities, binding) for symbol in rule.rhs)
        raise SimulatorError(f"the grammar has no rule for #{name}# that fits")

    def _expand(self, symbol: Any, facts: Facts, entities: Entities, binding: Binding) -> str:
        match type(symbol).__name__:
            case "TerminalSymbol":
                return str(symbol.symbol)
            case "NonterminalSymbol":
                return self._rule(symbol.symbol, facts, entities, binding)
            case "ListSymbol":
                items = self._items(symbol.symbol, facts, entities, binding)
                if not items:
                    return self._rule("list_empty", facts, entities, binding)
                if len(items) == 1:
                    return items[0]
                separator = self._rule("list_separator", facts, entities, binding)
                last = self._rule("list_last_separator", facts, entities, binding)
                return separator.join(items[:-1]) + last + items[-1]
            case _:
                return "".join(self._items(symbol, facts, entities, binding))

    def _items(self, symbol: Any, facts: Facts, entities: Entities, binding: Binding) -> list[str]:
        if type(symbol).__name__ == "EvalSymbol":
            names = {placeholder: entities[entity] for (placeholder, _), entity in binding.items()}
            return [str(eval(_code(symbol.expression), {"__builtins__": {}}, names))]
        if not symbol.given:
            return [self._expand(symbol.expression, facts, entities, binding)]
        found = _solve(_query(symbol.given), facts, entities, binding)
        return [self._expand(symbol.expression, facts, entities, one) for one in found]


Query = tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
"""Predicates with their placeholders, all of which must hold."""


@lru_cache(maxsize=1024)
def _symbols(text: str) -> tuple[Any, ...]:
    with _parsing:
        return tuple(require("textworld.envs.pddl.textgen", "alfworld")._parse_and_convert(text, rule_name="symbols"))


@lru_cache(maxsize=1024)
def _query(text: str) -> Query:
    with _parsing:
        rule = require("textworld.logic", "alfworld").Rule.parse_conjunctive_query(text)
    return tuple((pred.name, tuple((ph.name, ph.type) for ph in pred.parameters)) for pred in rule.preconditions)


@lru_cache(maxsize=1024)
def _code(expression: str) -> CodeType:
    return compile(expression.strip(), "<grammar>", "eval")


def _solve(query: Query, facts: Facts, entities: Entities, binding: Binding, depth: int = 0) -> Iterator[Binding]:
    """Yield every extension of `binding` under which `query` holds.

    As in TextWorld, different placeholders stand for different entities, and facts are tried in sorted order.
    """
    if depth == len(query):
        yield binding
        return
    name, placeholders = query[depth]
    for args in sorted(facts.get(name, ())):
        extended = dict(binding)
        for placeholder, arg in zip(placeholders, args, strict=True):
            bound = extended.get(placeholder)
            if bound is None:
                # The type `object` is the root of PDDL's hierarchy: everything is one.
                if placeholder[1] not in ("object", entities[arg].type) or arg in extended.values():
                    break
                extended[placeholder] = arg
            elif bound != arg:
                break
        else:
            yield from _solve(query, facts, entities, extended, depth + 1)
