"""The ALFWorld engine: Fast Downward decides what is possible, TextWorld's grammar says it, both without waste.

TextWorld's own environment translates a game four times to play it once and derives the text of every possible command
at every step. Here a game is translated once (`translate` remembers the last few), a command's text is derived once per
game, and the commands are looked at only when asked for or needed.
"""

from __future__ import annotations

import gc
import hashlib
import sys
import threading
import weakref
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from adaplan_envs.alfworld.grammar import Args, Entity, TextGrammar
from adaplan_envs.errors import MissingExtraError, SimulatorError, require

GOAL_SLOT = "UNKNOWN GOAL"
"""Where the grammar of the alfworld package leaves room for the task."""
REMEMBERED = 16
"""Translated games kept in memory, at 0.2 to 2 MB each."""

_translating = threading.Lock()
"""The planner's translator keeps global state: one thread at a time. Of the rest, engines share only what is read."""
_translated: OrderedDict[str, Problem] = OrderedDict()
_idle_libraries: list[Any] = []


@cache
def package_file(name: str) -> str:
    """Return the text of a file of the installed alfworld package.

    Found by path, because importing the package creates a folder in the user's home.

    Raises:
        MissingExtraError: alfworld is not installed.
    """
    spec = find_spec("alfworld")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError('alfworld is not installed. Install it with: pip install "adaplan[alfworld]"')
    return (Path(spec.submodule_search_locations[0]) / name).read_text(encoding="utf-8")


@cache
def _grammar() -> TextGrammar:
    return TextGrammar(package_file("data/alfred.twl2"))


@dataclass(frozen=True, slots=True)
class Operation:
    """A ground action of the PDDL problem, ``pickupobject agent1 loc_bar_3 mug_bar_01 desk_bar_01``."""

    action: str
    binding: dict[tuple[str, str], str]
    command: str | None
    """Its text, or None where that depends on the state."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A translated game; never changes.

    Attributes:
        sas: what the planner's library reads.
        start: the facts at the beginning, by predicate.
        entities: by id, with the names that the text uses.
        parameters: action -> its placeholders with their types.
        ids: operation -> its number in `sas`.
        fixed: predicates that no action changes.
    """

    sas: bytes
    start: dict[str, frozenset[Args]]
    entities: dict[str, Entity]
    parameters: dict[str, tuple[tuple[str, str], ...]]
    ids: dict[str, int]
    fixed: frozenset[str]
    operations: dict[str, Operation] = field(default_factory=dict)

    def operation(self, name: str) -> Operation:
        """Return the operation with this name, reading it at first sight."""
        found = self.operations.get(name)
        if found is None:
            action, *args = name.split()
            binding = dict(zip(self.parameters[action], args, strict=True))
            template = _grammar().templates[action].command
            still = _grammar().queried(template) <= self.fixed
            start: dict[str, set[Args]] = self.start  # type: ignore[assignment]  # only read
            command = _grammar().derive(template, start, self.entities, binding) if still else None
            found = self.operations[name] = Operation(action, binding, command)
        return found


def _names(ids: Iterable[str]) -> dict[str, str]:
    """Return the name of each entity: ``mug_bar__minus_01_dot_40...`` is ``mug 2``.

    Numbers run downwards over the sorted ids of a kind, as in ALFWorld's own naming.
    """
    left: Counter[str] = Counter()
    stems = {}
    for entity in ids:
        stem, bar, _ = entity.partition("_bar_")
        if bar:
            stems[entity] = stem + ("basin" if "basin" in entity else "")
            left[stems[entity]] += 1
    names = {}
    for entity in sorted(ids):
        if entity in stems:
            stem = stems[entity]
            names[entity] = f"{stem} {left[stem]}"
            left[stem] -= 1
        else:
            names[entity] = f"{entity} "
    return names


def translate(problem: str) -> Problem:
    """Return `problem`, a PDDL problem of the ALFRED domain, ready to play.

    Raises:
        MissingExtraError: alfworld or textworld is not installed.
        SimulatorError: the problem is not well-formed.
    """
    with _translating:
        return _translate(problem)


def _translate(problem: str) -> Problem:
    key = hashlib.sha256(problem.encode()).hexdigest()
    if key in _translated:
        _translated.move_to_end(key)
        return _translated[key]
    domain = package_file("data/alfred.pddl")
    fast_downward = require("fast_downward", "alfworld")
    argv = sys.argv  # the translator overwrites it
    collecting = gc.isenabled()
    gc.disable()  # it makes a million small objects, none of them garbage yet
    try:
        task, sas = fast_downward.pddl2sas(domain, problem)
    except (Exception, SystemExit) as error:
        raise SimulatorError(f"not a problem of the ALFRED domain: {type(error).__name__}: {error}") from error
    finally:
        sys.argv = argv
        if collecting:
            gc.enable()
    types = {thing.name: thing.type_name for thing in task.objects}
    start: dict[str, set[Args]] = {}
    for atom in task.init:
        if (predicate := getattr(atom, "predicate", "=")) != "=":
            start.setdefault(predicate, set()).add(tuple(atom.args))
    names = _names({arg for facts in start.values() for args in facts for arg in args})
    ids: dict[str, int] = {}
    lines = sas.split("\n")
    for number, line in enumerate(index for index, text in enumerate(lines) if text == "begin_operator"):
        ids.setdefault(lines[line + 1], number)
    changed = {effect.literal.predicate for action in task.actions for effect in action.effects}
    result = Problem(
        sas=sas.encode(),
        start={predicate: frozenset(facts) for predicate, facts in start.items()},
        entities={name: Entity(name, types[name], text) for name, text in names.items()},
        parameters={
            action.name: tuple(
                # What follows the external ones was a quantifier, and is not part of an operation's name.
                (parameter.name.strip("?"), parameter.type_name)
                for parameter in action.parameters[: action.num_external_parameters]
            )
            for action in task.actions
        },
        ids=ids,
        fixed=frozenset(start) - changed,
    )
    _translated[key] = result
    while len(_translated) > REMEMBERED:
        _translated.popitem(last=False)
    return result


class Engine:
    """Plays one game at a time, for one thread at a time.

    Each has a copy of the planner's library, which is handed on at `close`. All methods raise `SimulatorError` when a
    second thread enters while one is inside.
    """

    def __init__(self) -> None:
        self.problem: Problem | None = None
        self.facts: dict[str, set[Args]] = {}
        """What is true now, by predicate; ``not_`` ones hold what has ceased to be."""
        self.played: list[str] = []
        """The operations since the start: all that `replay` needs."""
        self.changed = False
        """Whether the last operation made anything true or false, apart from having been seen."""
        self._library: Any = None
        self._operators: Any = None
        self._commands: dict[str, tuple[str, int, int]] | None = None
        self._release: Any = None
        self._busy = threading.Lock()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._busy.acquire(blocking=False):
            raise SimulatorError(
                f"thread {threading.current_thread().name!r} entered an ALFWorld engine while another was using it: "
                "make an environment for each thread, or use processes (gymnasium.make_vec(..., mode='async'))"
            )
        try:
            yield
        finally:
            self._busy.release()

    def load(self, problem: Problem) -> None:
        """Go to the start of `problem`."""
        with self._alone():
            if self._library is None:
                try:
                    self._library = _idle_libraries.pop()
                except IndexError:
                    self._library = require("fast_downward", "alfworld").load_lib()
                self._release = weakref.finalize(self, _idle_libraries.append, self._library)
                self._release.atexit = False
            self._library.load_sas(problem.sas)
            self.problem = problem
            self.facts = {predicate: set(facts) for predicate, facts in problem.start.items()}
            self.played = []
            self._commands = None

    def text(self, start: str, binding: dict[tuple[str, str], str] | None = None) -> str:
        """Return what the grammar says for `start`, such as ``#intro#``."""
        assert self.problem is not None
        return _grammar().derive(start, self.facts, self.problem.entities, binding or {})

    @property
    def won(self) -> bool:
        """Whether the goal holds."""
        with self._alone():
            return bool(self._library.check_goal())

    @property
    def commands(self) -> list[str]:
        """The commands that are possible now, sorted."""
        with self._alone():
            return sorted(self._possible())

    def step(self, command: str) -> str | None:
        """Play `command` and return what the engine says, or None (and nothing happens) if it is not possible now."""
        assert self.problem is not None
        with self._alone():
            found = self._possible().get(command)
            if found is None:
                return None
            name, number, effects = found
            self._apply(name, number, effects)
            operation = self.problem.operation(name)
            return self.text(_grammar().templates[operation.action].feedback, operation.binding)

    def replay(self, played: Iterable[str]) -> None:
        """Play recorded operations from the start of the loaded problem."""
        assert self.problem is not None
        with self._alone():
            for name in played:
                # Their number of effects is not asked for: an action of this domain has fewer than 16.
                self._apply(name, self.problem.ids[name], 16)

    def close(self) -> None:
        """Hand the library on to the next engine."""
        if self._release is not None:
            self._release()
            self._release = self._library = None

    def _possible(self) -> dict[str, tuple[str, int, int]]:
        """Return command -> (operation, its number, its number of effects)."""
        if self._commands is None:
            assert self.problem is not None
            fast_downward = require("fast_downward", "alfworld")
            count = self._library.get_applicable_operators_count()
            if self._operators is None or len(self._operators) < count:
                self._operators = (fast_downward.Operator * (2 * count))()
            self._library.get_applicable_operators(self._operators)
            commands: dict[str, tuple[str, int, int]] = {}
            for index in range(count):
                operator = self._operators[index]
                name = operator.name
                operation = self.problem.operation(name)
                command = operation.command
                if command is None:
                    command = self.text(_grammar().templates[operation.action].command, operation.binding)
                commands.setdefault(command, (name, operator.id, operator.nb_effect_atoms))
            self._commands = commands
        return self._commands

    def _apply(self, name: str, number: int, effects: int) -> None:
        atoms = (require("fast_downward", "alfworld").Atom * effects)()
        self._library.apply_operator(number, atoms)
        self.changed = False
        for atom in atoms:
            sign, _, rest = atom.name.partition(" ")
            if not sign:
                break
            predicate, _, inside = rest.partition("(")
            args = tuple(arg for arg in inside[:-1].split(", ") if arg)
            negative = f"not_{predicate}"
            add, remove = (predicate, negative) if sign == "Atom" else (negative, predicate)
            was = args in self.facts.get(predicate, ())
            self.changed |= was != (sign == "Atom") and predicate != "checked"
            self.facts.setdefault(remove, set()).discard(args)
            self.facts.setdefault(add, set()).add(args)
        self.played.append(name)
        self._commands = None
