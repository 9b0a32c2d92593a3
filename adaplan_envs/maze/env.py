"""MAZE: find the way to the goal, one step at a time."""

from __future__ import annotations

from typing import Any, NamedTuple

from adaplan_envs.core import TextEnv
from adaplan_envs.errors import check_name
from adaplan_envs.maze.draw import as_picture, as_text
from adaplan_envs.maze.expert import MazeExpert
from adaplan_envs.maze.facts import read_facts
from adaplan_envs.maze.generate import generate
from adaplan_envs.maze.grid import DIRECTIONS, DOUBLE_T_STARTS, Cell, Direction, Maze, double_t
from adaplan_envs.types import ActionStatus, Outcome, Task

_SPELT_OUT = {f"move {direction.move}": direction for direction in DIRECTIONS}
_BARE = {direction.move: direction for direction in DIRECTIONS}
_ACTIONS = "The actions are: move up, move down, move left, move right. Each goes one cell; up is towards row 0."

_VIEWS = {
    "full": (
        "You are told your position and the goal's as row, column, counted from 0 at the top left, and on which sides "
        "of your cell there are walls (right, left, above, below)."
    ),
    "partial": (
        "You are told on which sides of your cell there are walls (right, left, above, below) and the moves that you "
        "have made, but neither where you are nor where the goal is."
    ),
}

_REFERENCE_LIMIT = 50  # AgentGym plays this many actions; the next one ends the episode unplayed


class MazeState(NamedTuple):
    """What changes during an episode: where the player is, and every understood move with whether a wall stopped it."""

    position: Cell
    moves: tuple[tuple[Direction, bool], ...]


class MazeEnv(TextEnv):
    """Walk from a start to a goal through walls that show only from close by.

    ## Description
    A grid of open cells and walls. The player sees the walls around its own cell alone and must reach the goal.

    ## Observation
    A sentence on what the last action did where it was not a plain step, then the position, the goal and the walls:
    ``You are at 5, 6. The goal is at 8, 6. Walls: above.`` With ``observe="partial"`` the walls and the moves so far.

    ## Actions
    ``move up``, ``move down``, ``move left``, ``move right``, or the direction alone. A move into a wall stays put
    (``no_effect``).

    ## Reward and end
    1.0 on the goal, which ends the episode; else 0. Truncated after 100 actions. The score is the share of the
    shortest path from the start that is done: 1 - distance / distance at the start, at least 0.

    ## Tasks
    ``train`` (2,000) and ``test`` (215): generated mazes of 7 to 13 cells a side, in turn without loops, with rooms,
    and open with obstacles, with shortest paths of 4 to 40 moves. No layout is in both. ``agentgym`` (25): the
    fixed double-T maze of 10 x 13 cells, by AgentGym's game number. A task's difficulty is its shortest path in moves.

    ## Options
    ``observe``: ``full`` (default) or ``partial``. ``rules``: ``default`` or ``agentgym``. ``info`` holds, besides the
    keys of every environment, ``position`` (row, column) and ``walls`` (among right, left, above, below).

    ## Differences from the reference
    With ``rules="agentgym"``: only ``move DIRECTION`` is understood, nothing is said of bumps and of words that are no
    move, and the 51st action ends the episode as a failure without being played. Default: bare directions too, bumps
    and unknown words are explained, 100 actions.

    ## Source
    LMRL-Gym's Maze (Abdulhai et al. 2023, arXiv 2311.18232), as AgentGym (arXiv 2406.04151) serves it.

    ## Example
    >>> import gymnasium
    >>> env = gymnasium.make("adaplan_envs:AdaPlan/Maze-v0")
    >>> observation, info = env.reset(options={"task_id": "maze/agentgym/0018"})
    >>> observation
    'You are at 7, 6. The goal is at 8, 6. Walls: right, left.'
    >>> env.step("move down")[0]
    'You have reached the goal.'
    """

    name = "maze"
    splits = {"train": 2000, "test": 215, "agentgym": len(DOUBLE_T_STARTS)}
    rulesets = {
        "default": f"Find your way through a maze to the goal. {_ACTIONS} A move into a wall leaves you where you are.",
        "agentgym": f"Find your way through a maze to the goal. {_ACTIONS} Anything else leaves you where you are.",
    }
    default_max_steps = 100
    extra_info = ("position", "walls")
    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}

    _state: MazeState

    def __init__(self, *, observe: str = "full", max_steps: int | None = None, **options: Any) -> None:
        """Args as of `TextEnv`, and observe: ``full`` or ``partial``.

        Raises:
            UnknownNameError: no such view, split, ruleset or render mode.
        """
        if max_steps is None and options.get("rules") == "agentgym":
            max_steps = _REFERENCE_LIMIT + 1
        super().__init__(max_steps=max_steps, **options)
        self.observe = check_name("view", observe, _VIEWS)
        self._reference = self.ruleset == "agentgym"
        self._moves = _SPELT_OUT if self._reference else _SPELT_OUT | _BARE

    @property
    def rules(self) -> str:
        """What an agent is told before it plays: goal, action syntax, what feedback means."""
        return f"{self.rulesets[self.ruleset]} {_VIEWS[self.observe]}"

    @property
    def maze(self) -> Maze:
        """The maze of the running episode."""
        maze: Maze = self.current_task.data
        return maze

    @property
    def position(self) -> Cell:
        """Where the player is, (row, column)."""
        return self._state.position

    def make_task(self, split: str, index: int) -> Task:
        """Return task `index` of `split`; its data is a `Maze`."""
        maze = double_t(index) if split == "agentgym" else generate(split, index)
        where = f" at {maze.goal[0]}, {maze.goal[1]} (row, column)" if self.observe == "full" else ""
        return Task(self.task_id(split, index), split, index, f"Reach the goal{where}.", maze.shortest, maze)

    def _begin(self, task: Task, seed: int) -> str:
        self._state = MazeState(task.data.start, ())
        return self._describe()

    def _apply(self, action: str) -> Outcome:
        direction = self._moves.get(action)
        if self._reference and self._steps > _REFERENCE_LIMIT:
            return Outcome("You have run out of steps.", ActionStatus.INVALID, action, failed=True)
        if direction is None:
            hint = "" if self._reference else "That is not a move: say move up, move down, move left or move right. "
            return Outcome(hint + self._describe(), ActionStatus.UNPARSED, action)
        maze, ((row, column), moves) = self.maze, self._state
        after = (row + direction.row, column + direction.column)
        bump = after not in maze.distances
        self._state = MazeState((row, column) if bump else after, (*moves, (direction, bump)))
        canonical = f"move {direction.move}"
        if bump:
            hint = "" if self._reference else "You bump into a wall. "
            return Outcome(hint + self._describe(), ActionStatus.NO_EFFECT, canonical)
        if after == maze.goal:
            return Outcome("You have reached the goal.", ActionStatus.OK, canonical, success=True)
        return Outcome(self._describe(), ActionStatus.OK, canonical)

    def _describe(self) -> str:
        maze, ((row, column), _) = self.maze, self._state
        walls = ", ".join(maze.walls[row, column]) or "none"
        if self.observe == "full":
            goal = maze.goal
            return f"You are at {row}, {column}. The goal is at {goal[0]}, {goal[1]}. Walls: {walls}."
        moves = ", ".join(f"{d.move} (wall)" if bump else d.move for d, bump in self._state.moves)
        return f"Walls: {walls}. Moves so far: {moves or 'none'}."

    def _make_expert(self) -> MazeExpert:
        return MazeExpert(self)

    def admissible_actions(self) -> list[str]:
        """Return the moves that no wall stops."""
        row, column = self.position
        return [action for action, d in _SPELT_OUT.items() if (row + d.row, column + d.column) in self.maze.distances]

    def _score(self) -> float:
        maze = self.maze
        return max(0.0, 1.0 - maze.distances[self._state.position] / maze.shortest)

    def _extra_info(self) -> dict[str, Any]:
        position = self._state.position
        return {"position": position, "walls": self.maze.walls[position]}

    def hidden_facts(self) -> dict[str, Any]:
        maze = self.maze
        legend = "# wall, . open; positions are row, column from the top left"
        return {"maze": list(maze.rows), "legend": legend, "player": list(self.position), "goal": list(maze.goal)}

    def secrets(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [(row,) for row in self.maze.rows]
        return rows if self.observe == "full" else [*rows, (f"{self.maze.goal[0]}, {self.maze.goal[1]}",)]

    def facts(self, observation: str) -> dict[str, Any]:
        return read_facts(observation)

    def _visited(self) -> list[Cell]:
        path = [self.maze.start]
        for direction, bump in self._state.moves:
            if not bump:
                path.append((path[-1][0] + direction.row, path[-1][1] + direction.column))
        return path

    def _ansi(self) -> str:
        return as_text(self.maze, self._visited())

    def _rgb_array(self) -> Any:
        return as_picture(self.maze, self._visited())

    def _get_state(self) -> MazeState:
        return self._state  # immutable: nothing to copy

    def _set_state(self, state: MazeState) -> None:
        self._state = state
