"""The rules of AgentGym's BabyAI, quirks included, so that its recorded runs replay exactly.

Source: the behaviour of ``agentenv-babyai`` (AgentGym, arXiv 2406.04151).
"""

from __future__ import annotations

from collections import deque
from typing import Any

from adaplan_envs.babyai.levels import DROP, FORWARD, LEFT, PICKUP, RIGHT, TOGGLE, follow, freeze, thaw
from adaplan_envs.babyai.view import STEPS, Cell, Sight, describe, door_state, kind, look
from adaplan_envs.types import ActionStatus, Outcome

BLOCKING = frozenset({"wall", "box", "ball", "key", "lava"})
"""What the planner goes around: doors are not among it, not even closed ones."""

Pose = tuple[int, int, int]
"""x, y, direction."""


class AgentGymPlay:
    """One episode by AgentGym's rules.

    Args:
        level_id: id of the minigrid level.
        level: that level, with ``first_look`` set.
        planned: what `solver.solve` says of the current state, where the expert has asked it.
    """

    def __init__(self, level_id: str, level: Any, planned: list[int] | None = None) -> None:
        self.level_id, self.level, self.planned = level_id, level, planned or []
        self._look(level.first_look)

    @property
    def budget(self) -> int:
        """How many minigrid actions the mission may take: a success that comes later is not taken for one."""
        return (5 * int(self.level.max_steps) - 1) // 9

    def _look(self, cells: list[Cell]) -> None:
        """Number what is in sight afresh, by Manhattan distance, and work out what can be done."""
        level = self.level
        self._cells, self._image = cells, self._image_of(cells)
        # An agent in a doorway does not see that door; a stable sort keeps the order of the view's scan among equals.
        cells = [cell for cell in cells if cell.thing is not None and (cell.ahead, cell.right) != (0, 0)]
        cells.sort(key=lambda cell: cell.ahead + abs(cell.right))
        self.visible: list[Sight] = []
        self.facing: tuple[str, int] | None = None
        counts: dict[str, int] = {}
        named: list[tuple[str, int, Cell]] = []
        for cell in cells:
            thing = cell.thing
            if thing.type in ("wall", "box") and cell.right == 0 and self.facing is None:
                self.facing = (thing.type, cell.ahead)
            if thing.type == "wall":
                continue
            name = f"{thing.color} {door_state(thing)} door" if thing.type == "door" else kind(thing)
            counts[name] = counts.get(name, 0) + 1
            self.visible.append(Sight(name, counts[name], cell.ahead, cell.right))
            named.append((name, counts[name], cell))
        self.carrying = kind(level.carrying) if level.carrying is not None else None
        self._work_out(cells, named)

    def _image_of(self, cells: list[Cell]) -> list[Any]:
        """Return what minigrid's image would tell apart."""
        hand = self.level.carrying
        return [
            (cell.ahead, cell.right, thing.encode() if thing is not None else None)
            for cell in cells
            for thing in [hand if cell.ahead == cell.right == 0 else cell.thing]
        ]

    def _work_out(self, cells: list[Cell], named: list[tuple[str, int, Cell]]) -> None:
        """Set which commands there are, with the minigrid actions of each, and why others are refused."""
        hand = self.level.carrying
        self._options: dict[str, list[int]] = {"turn left": [LEFT], "turn right": [RIGHT]}
        self._refusals: dict[str, str] = {}
        moves, refusals = self._options, self._refusals
        routes = _Routes(self.level, cells)

        if self.facing is None or self.facing[1] > 1:
            moves["move forward"] = [FORWARD]
        else:
            refusals["move forward"] = f"A {self.facing[0]} is right in front of you."
        if hand is None:
            portable = [(name, cell) for name, _, cell in named if cell.thing.type in ("key", "ball", "box")]
            self._offer("pickup", portable, routes, [PICKUP])
            refusals["drop"] = "You carry nothing to drop."
        elif any(cell.ahead == 1 and cell.right == 0 and cell.thing.type in BLOCKING for cell in cells):
            refusals["drop"] = "Something is in front of you already."
        else:
            moves["drop"] = [DROP]
        for name, number, cell in named:
            if cell.thing.type == "door":
                self._offer_door(f"{name} {number}", cell, routes)
        self._offer("go to", [(name, cell) for name, _, cell in named], routes, [])

    def _offer(self, verb: str, targets: list[tuple[str, Cell]], routes: _Routes, ending: list[int]) -> None:
        """Number only the targets that can be reached, as the reference does; of the others the next number fails."""
        counts: dict[str, int] = {}
        for name, cell in targets:
            path = routes.to(cell, arrive=False)
            command = f"{verb} {name} {counts.get(name, 0) + 1}"
            if path is None:
                self._refusals[command] = f"There is no way to {name} {counts.get(name, 0) + 1}."
            else:
                counts[name] = counts.get(name, 0) + 1
                self._options[command] = path + ending

    def _offer_door(self, label: str, cell: Cell, routes: _Routes) -> None:
        door, hand = cell.thing, self.level.carrying
        state = door_state(door)
        through, toggle = f"go through {label}", f"toggle and go through {label}"
        if state == "open":
            path = routes.to(cell, arrive=True)
            if path is None:
                self._refusals[through] = f"There is no way to {label}."
            else:
                self._options[through] = path
            return
        if state == "closed":
            self._refusals[through] = f"{label} is closed: toggle it first."
        elif hand is None or hand.type != "key":
            self._refusals[toggle] = f"{label} is locked and you carry no key."
            return
        elif hand.color != door.color:
            self._refusals[toggle] = f"{label} is locked and your key has another colour."
            return
        path = routes.to(cell, arrive=False)
        if path is None:
            self._refusals[toggle] = f"There is no way to {label}."
        else:
            self._options[toggle] = [*path, TOGGLE, FORWARD]
            if not path:
                self._options["toggle"] = [TOGGLE]

    def options(self) -> dict[str, list[int]]:
        """Return the commands, in the reference's order, with the minigrid actions that they stand for."""
        return {**self._options, "check available actions": []}

    def text(self) -> str:
        """Return what is seen, and the commands, which the reference adds to every observation."""
        seen = describe(self.visible, self.facing, self.carrying)
        return f"{seen}\nAvailable actions: {', '.join(self.options())}"

    def play(self, action: str) -> Outcome:
        """Play one command."""
        if "check" in action:
            listed = f"Available actions: {', '.join(self.options())}"
            return Outcome(listed, ActionStatus.OK, "check available actions")
        if action not in self._options:
            if action in self._refusals:
                return Outcome(self._refusals[action], ActionStatus.INVALID, action)
            return Outcome("This is not among the available actions.", ActionStatus.UNPARSED, action)
        if not self._options[action]:
            return Outcome("Nothing changes: you are there already.", ActionStatus.NO_EFFECT, action)
        level, reward, cells, changed = self.level, 0.0, self._cells, False
        for move in self._options[action]:
            pose = (level.agent_pos, level.agent_dir)
            _, reward, _, _, _ = level.step(move)
            self.planned = follow(self.planned, move)
            cells = look(level)
            image = self._image_of(cells)
            shown = image != self._image
            changed = changed or shown or pose != (level.agent_pos, level.agent_dir)
            if not shown:
                break  # a step that fails to show ends the command, even one that worked but looks the same
            self._image = image
        self._look(cells)
        status = ActionStatus.OK if changed else ActionStatus.NO_EFFECT
        # The reference looks at the reward of the last step only: a mission fulfilled on the way is missed, one
        # fulfilled after 5/9 of the level's budget does not count, a failed one goes on.
        if reward > 0.5:
            return Outcome(f"{self.text()}\nThe mission is accomplished.", status, action, success=True)
        return Outcome(self.text(), status, action)

    def freeze(self) -> bytes:
        """Return the state as bytes."""
        return freeze(self.level, self._cells, self.planned)

    @classmethod
    def thaw(cls, level_id: str, frozen: bytes) -> AgentGymPlay:
        """Return an episode that goes on from a frozen state."""
        level, cells, planned = thaw(level_id, frozen)
        level.first_look = cells
        return cls(level_id, level, planned)


class _Routes:
    """The reference's planner: breadth-first over poses within a window around the view, unseen cells free.

    Its quirks: the window has one line too many on axes along which the view's far left corner lies high, and a pose
    that is queued again before it is visited is reached from where it was queued last.
    """

    def __init__(self, level: Any, cells: list[Cell]) -> None:
        self.start: Pose = (int(level.agent_pos[0]), int(level.agent_pos[1]), int(level.agent_dir))
        self.blocked = {(cell.x, cell.y) for cell in cells if cell.thing.type in BLOCKING}
        x, y, direction = self.start
        size: int = level.agent_view_size
        (fx, fy), (rx, ry) = STEPS[direction], STEPS[(direction + 1) % 4]
        self.xs = _window(x + fx * (size - 1) - rx * (size // 2), (rx - fx) * size)
        self.ys = _window(y + fy * (size - 1) - ry * (size // 2), (ry - fy) * size)

    def to(self, cell: Cell, arrive: bool) -> list[int] | None:
        """Return the moves that end on `cell` (`arrive`) or in front of it, or None."""
        queue, visited = deque([self.start]), set()
        parents: dict[Pose, tuple[Pose, int]] = {}
        while queue:
            pose = queue.popleft()
            visited.add(pose)
            x, y, direction = pose
            dx, dy = STEPS[direction]
            if ((x, y) if arrive else (x + dx, y + dy)) == (cell.x, cell.y):
                path: list[int] = []
                while pose != self.start:
                    pose, move = parents[pose]
                    path.append(move)
                return path[::-1]
            for move, after in (
                (FORWARD, (x + dx, y + dy, direction)),
                (LEFT, (x, y, (direction - 1) % 4)),
                (RIGHT, (x, y, (direction + 1) % 4)),
            ):
                inside = after[0] in self.xs and after[1] in self.ys
                if inside and after not in visited and after[:2] not in self.blocked:
                    parents[after] = (pose, move)
                    queue.append(after)
        return None


def _window(corner: int, extent: int) -> range:
    return range(corner, corner + extent) if extent >= 0 else range(corner + extent, corner + 1)
