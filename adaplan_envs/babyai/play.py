"""The default rules: commands in words over minigrid's actions, numbers that stay, reasons for refusals."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from adaplan_envs.babyai.levels import DONE, DROP, FORWARD, LEFT, PICKUP, RIGHT, TOGGLE, follow, freeze, thaw
from adaplan_envs.babyai.routes import Routes
from adaplan_envs.babyai.view import STEPS, Cell, Sight, describe, door_state, kind, look
from adaplan_envs.types import ActionStatus, Outcome

PRIMITIVES: dict[str, int] = {
    "turn left": LEFT,
    "turn right": RIGHT,
    "move forward": FORWARD,
    "pick up": PICKUP,
    "drop": DROP,
    "toggle": TOGGLE,
    "done": DONE,
}
_FORMS = ("go to X N", "pick up X N", "go through DOOR N", "toggle and go through DOOR N")
_COMMAND = re.compile(
    r"(?P<verb>go to|pick ?up|go through|toggle and go through) (?:(?:the|an?) )?(?:(?:open|closed|locked) )?"
    r"(?:(?P<color>red|green|blue|purple|yellow|grey) )?(?:(?:open|closed|locked) )?"
    r"(?P<type>door|key|ball|box)(?: (?P<number>\d{1,3}))?"
)


class Known(NamedTuple):
    """An object that the agent has seen."""

    kind: str
    number: int
    x: int
    y: int

    @property
    def label(self) -> str:
        """Its name in commands, such as ``red ball 1``."""
        return f"{self.kind} {self.number}"


class Refused(Exception):
    """A command that can't be done now, with the reason for the agent."""


class Play:
    """One episode by the default rules.

    Args:
        level_id: id of the minigrid level.
        level: that level.
        primitive: understand only minigrid's seven actions.
        known: what has been seen, by object.
        seen: one byte for each cell of the grid, row by row: has it been seen?
        planned: what `solver.solve` says of the current state, where the expert has asked it.
    """

    def __init__(
        self,
        level_id: str,
        level: Any,
        primitive: bool,
        known: dict[Any, Known] | None = None,
        seen: bytearray | None = None,
        planned: list[int] | None = None,
    ) -> None:
        self.level_id, self.level, self.primitive = level_id, level, primitive
        self.known: dict[Any, Known] = known or {}
        self.seen = seen or bytearray(level.width * level.height)
        self.planned = planned or []
        self._look()

    @property
    def budget(self) -> int:
        """How many minigrid actions the mission may take."""
        return int(self.level.max_steps)

    # -- what is seen -------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Update `visible`, `facing` and `carrying` (see `view.describe`) and what is known."""
        level, known, seen, width = self.level, self.known, self.seen, self.level.width
        self.facing: tuple[str, int] | None = None
        sights: list[Cell] = []
        for cell in look(level):
            thing, x, y, ahead, right = cell
            seen[y * width + x] = 1
            if thing is None or (ahead == 0 and right == 0):
                continue
            if right == 0 and not (thing.type == "door" and thing.is_open):
                self.facing = (thing.type, ahead)  # rows come from the farthest: the last one is the nearest
            if thing.type != "wall":
                sights.append(cell)
        sights.sort(key=_distance)
        self.visible: list[Sight] = []
        for thing, x, y, ahead, right in sights:
            old = known.get(thing)
            if old is None:
                name = kind(thing)
                known[thing] = old = Known(name, 1 + sum(other.kind == name for other in known.values()), x, y)
            elif old.x != x or old.y != y:
                known[thing] = old = old._replace(x=x, y=y)
            name = f"{thing.color} {door_state(thing)} door" if thing.type == "door" else old.kind
            self.visible.append(Sight(name, old.number, ahead, right))
        if level.carrying is not None and level.carrying not in known:  # some levels start with an object in hand
            name = kind(level.carrying)
            known[level.carrying] = Known(name, 1 + sum(other.kind == name for other in known.values()), -1, -1)
        self.carrying = known[level.carrying].label if level.carrying is not None else None

    def text(self) -> str:
        """Return what is seen."""
        return describe(self.visible, self.facing, self.carrying)

    def present(self) -> dict[Any, Known]:
        """Return what is known and still lies where it was seen: not in the hand, not a box that was opened."""
        cells, width = self.level.grid.grid, self.level.width
        return {thing: known for thing, known in self.known.items() if cells[known.y * width + known.x] is thing}

    # -- commands -----------------------------------------------------------------------------------------------

    def play(self, action: str) -> Outcome:
        """Play one command."""
        if action == "pickup":
            action = "pick up"
        if action in PRIMITIVES:
            return self._primitive(action)
        match = None if self.primitive else _COMMAND.fullmatch(action)
        if match is None:
            listed = ", ".join(PRIMITIVES) if self.primitive else f"{', '.join(PRIMITIVES)}, {', '.join(_FORMS)}"
            return Outcome(f"Not a command. The commands are: {listed}.", ActionStatus.UNPARSED, action)
        verb = match["verb"].replace("pickup", "pick up")
        try:
            target = self._target(match)
            action = f"{verb} {self.known[target].label}"
            moves = self.moves(verb, target)
        except Refused as refusal:
            return Outcome(str(refusal), ActionStatus.INVALID, action)
        if not moves:
            return Outcome("You are there already: nothing changes.", ActionStatus.NO_EFFECT, action)
        return self._run(moves, action)

    def _primitive(self, action: str) -> Outcome:
        level = self.level
        dx, dy = STEPS[level.agent_dir]
        x, y = int(level.agent_pos[0]), int(level.agent_pos[1])
        ahead, hand = level.grid.get(x + dx, y + dy), level.carrying
        name = self._name(ahead)
        status, reason = ActionStatus.INVALID, ""
        if action == "move forward" and ahead is not None and not ahead.can_overlap():
            status, reason = ActionStatus.NO_EFFECT, f"You can't move: {name} is in the way."
        elif action == "pick up" and hand is not None:
            reason = f"You carry {self.carrying} already: drop it first."
        elif action == "pick up" and (ahead is None or not ahead.can_pickup()):
            reason = f"You can't pick up {name}." if ahead else "There is nothing in front of you to pick up."
        elif action == "drop" and hand is None:
            reason = "You carry nothing to drop."
        elif action == "drop" and ahead is not None:
            reason = f"There is no room to drop it: {name} is in front of you."
        elif action == "toggle" and (ahead is None or ahead.type not in ("door", "box")):
            reason = f"You can't toggle {name}." if ahead else "There is nothing in front of you to toggle."
        elif action == "toggle" and ahead.type == "door" and not self._opens(ahead):
            reason = f"{name} is locked, and you don't carry the key of its colour."
        elif action == "done":
            status, reason = ActionStatus.NO_EFFECT, "Nothing changes."
        return self._run([PRIMITIVES[action]], action, reason, status if reason else ActionStatus.OK)

    def _run(self, moves: list[int], action: str, reason: str = "", status: ActionStatus = ActionStatus.OK) -> Outcome:
        """Play minigrid actions until one ends the mission, or all are done. A `reason` replaces the view."""
        terminated = truncated = False
        reward = 0.0
        for move in moves:
            _, reward, terminated, truncated, _ = self.level.step(move)
            self.planned = follow(self.planned, move)
            if terminated or truncated:
                break
        self._look()
        text = reason or self.text()
        if terminated and reward > 0:
            return Outcome(f"{text}\nThe mission is accomplished.", status, action, success=True)
        if terminated:
            return Outcome(f"{text}\nThe mission has failed: that was the wrong object.", status, action, failed=True)
        if truncated:
            text = f"{text}\nThe time is up: this level allows {self.level.max_steps} moves."
            return Outcome(text, status, action, truncated=True)
        return Outcome(text, status, action)

    def _target(self, match: re.Match[str]) -> Any:
        """Return the object that a command names.

        Raises:
            Refused: none is known by this name, or several are and the number is missing.
        """
        color, kind_of, number = match["color"], match["type"], match["number"]
        fits = {
            thing: known
            for thing, known in self.known.items()
            if thing.type == kind_of and color in (None, thing.color) and number in (None, str(known.number))
        }
        here = {thing: known for thing, known in self.present().items() if thing in fits}
        if len(here) == 1:
            return next(iter(here))
        name = " ".join(filter(None, (color, kind_of, number)))
        if here:
            labels = ", ".join(known.label for known in here.values())
            raise Refused(f"Which {name} do you mean? You know: {labels}.")
        if self.level.carrying in fits:
            raise Refused(f"You carry {self.carrying}: it is in your hand.")
        if fits:
            raise Refused(f"There is no {name} any more.")
        raise Refused(f"You have not seen any {name} yet.")

    def moves(self, verb: str, target: Any, routes: Routes | None = None) -> list[int]:
        """Return the minigrid actions of a command, none where there is nothing to do.

        Raises:
            Refused: it can't be done now.
        """
        known = self.known[target]
        routes = routes or self._routes()
        opens = False
        if "through" in verb:
            if target.type != "door":
                raise Refused(f"You can't go through {known.label}: it is not a door.")
            if not self._opens(target):
                raise Refused(f"{known.label} is locked, and you don't carry the key of its colour.")
            opens = not target.is_open
            if opens and verb == "go through":
                raise Refused(f"{known.label} is {door_state(target)}: use toggle and go through.")
        elif verb == "pick up":
            if target.type == "door":
                raise Refused(f"You can't pick up {known.label}.")
            if self.carrying:
                raise Refused(f"You carry {self.carrying} already: drop it first.")
        arrive = "through" in verb and not opens
        path = routes.to(known.x, known.y, arrive)
        if path is None:
            raise Refused(f"You can't get to {known.label}: {self._obstacle(known, arrive)}.")
        if verb == "pick up":
            return [*path, PICKUP]
        return [*path, TOGGLE, FORWARD] if opens else path

    def _routes(self, bold: bool = False) -> Routes:
        """Return the ways over seen cells; a `bold` walker would pass through doors and objects."""
        cells = self.level.grid.grid
        if bold:
            free = [cell is None or cell.type != "wall" for cell in cells]
        else:
            free = [cell is None or cell.can_overlap() for cell in cells]
        walkable = [bool(seen) and able for seen, able in zip(self.seen, free, strict=True)]
        position = self.level.agent_pos
        return Routes((int(position[0]), int(position[1]), int(self.level.agent_dir)), walkable, self.level.width)

    def _obstacle(self, goal: Known, arrive: bool) -> str:
        """Say what stands in the way to `goal`."""
        path = self._routes(bold=True).poses(goal.x, goal.y, arrive)
        for x, y, _ in path or ():
            thing = self.level.grid.get(x, y)
            if thing is not None and not thing.can_overlap():
                label = self._name(thing)
                return f"{label} is {door_state(thing)}" if thing.type == "door" else f"{label} is in the way"
        return "you have not seen a way there"

    def _name(self, thing: Any) -> str:
        return self.known[thing].label if thing in self.known else f"a {thing.type}" if thing is not None else ""

    def _opens(self, door: Any) -> bool:
        """Return whether toggling moves `door`: it is not locked, or its key is in the hand."""
        hand = self.level.carrying
        return not door.is_locked or (hand is not None and hand.type == "key" and bool(hand.color == door.color))

    def options(self) -> dict[str, list[int]]:
        """Return the commands that change something now, with the minigrid actions that they stand for."""
        level = self.level
        dx, dy = STEPS[level.agent_dir]
        ahead, hand = level.grid.get(int(level.agent_pos[0]) + dx, int(level.agent_pos[1]) + dy), level.carrying
        sensible = {
            "turn left": True,
            "turn right": True,
            "move forward": ahead is None or ahead.can_overlap(),
            "pick up": hand is None and ahead is not None and ahead.can_pickup(),
            "drop": hand is not None and ahead is None,
            "toggle": ahead is not None and (ahead.type == "box" or (ahead.type == "door" and self._opens(ahead))),
        }
        options = {command: [PRIMITIVES[command]] for command, makes_sense in sensible.items() if makes_sense}
        if self.primitive:
            return options
        routes = self._routes()
        for thing, known in self.present().items():
            if thing.type == "door":
                verbs = ["go to", "go through" if thing.is_open else "toggle and go through"]
            else:
                verbs = ["go to", "pick up"]
            for verb in verbs:
                try:
                    moves = self.moves(verb, thing, routes)
                except Refused:
                    continue
                if moves:
                    options[f"{verb} {known.label}"] = moves
        return options

    # -- copies -------------------------------------------------------------------------------------------------

    def freeze(self) -> bytes:
        """Return the state as bytes."""
        return freeze(self.level, self.primitive, self.known, self.seen, self.planned)

    @classmethod
    def thaw(cls, level_id: str, frozen: bytes) -> Play:
        """Return an episode that goes on from a frozen state."""
        level, *more = thaw(level_id, frozen)
        return cls(level_id, level, *more)


def _distance(cell: Cell) -> int:
    return cell.ahead + abs(cell.right)
