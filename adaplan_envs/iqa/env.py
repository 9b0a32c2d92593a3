"""IQA: answer a question about a house by walking through it and looking."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from adaplan_envs.core import TextEnv
from adaplan_envs.errors import ConfigError
from adaplan_envs.iqa.expert import IQAExpert
from adaplan_envs.iqa.facts import hidden_facts, read_facts
from adaplan_envs.iqa.look import WALL, House
from adaplan_envs.iqa.memory import SeenItem, SeenPlace, State
from adaplan_envs.iqa.scene import FURNITURE, OBJECTS, Problem, make_problem
from adaplan_envs.iqa.sight import AHEAD, CELL, HEADINGS, SECTORS, sight
from adaplan_envs.types import ActionStatus, Outcome, Task

REACH = 1.0
"""How far a receptacle may be to be opened or closed, in metres; what reads 1.0 m in an observation is in reach."""

RULES = f"""\
You are in a house of one to three rooms and are asked one question about the objects in it. Walk, look, open what is \
closed, and answer once you know.

Kinds of objects: {", ".join(OBJECTS)}. Objects are on or in: {", ".join(FURNITURE)}. \
{", ".join(kind for kind, furniture in FURNITURE.items() if furniture.opens).capitalize()} open and close: what is in \
them shows only while they are open. Questions ask whether something is there (answer yes or no) or how many there \
are (answer 0, 1, 2 or 3). "In the house" counts every room and the insides of everything.

Actions, one at a time:
- move ahead: one step of {CELL:g} m, if the way is clear.
- turn left, turn right: a quarter turn on the spot.
- open X, close X: X as it was named to you, such as "open drawer 2". It must be in view and at most {REACH:g} m away.
- answer V: your final answer, such as "answer no". There is only one: it ends the episode.

You see a cone ahead of you, a few steps deep. Walls, cabinets and fridges block sight; you see over everything else. \
Each observation says which way you face, how far the way ahead is clear, and what is in view to the left, in front \
and to the right, with its distance from you. Things are numbered in the \
order in which you first see them and keep their number: mug 3 is the third mug that you have met."""

_COMMAND = re.compile(
    r"(?P<move>(?:move|go|walk|step) ?(?:ahead|forward|forwards))"
    r"|turn ?(?P<turn>left|right)"
    r"|(?P<door>open|close) (?:the )?(?P<what>[^\W_]+(?: \d{1,4})?)"
    r"|answer *[:=]? *(?P<answer>.*)"
)
_QUOTES = " .!,;:\"'`()[]{}<>"
_ANSWERS = {"zero": "0", "none": "0", "one": "1", "two": "2", "three": "3"}


class IQAEnv(TextEnv):
    """Interactive question answering in a small simulated house.

    ## Description
    A house of one to three rooms on a grid of 0.25 m cells, with receptacles at the walls and tables in the rooms.
    Thirteen classes of objects lie on seven classes of receptacles, four of which have to be opened. One question is
    asked: whether a class of object is in the house, how many of it there are (0 to 3), or whether it is in or on a
    certain receptacle.

    ## Observation
    The heading, how far the way ahead is clear, and what is in view by sector (left, front, right) with its distance
    in metres and what it is on or in. The view is a cone; walls, cabinets and fridges block it.

    ## Actions
    ``move ahead``, ``turn left``, ``turn right``, ``open X``, ``close X``, ``answer V``. Opening needs a receptacle in
    view and within 1 m; without its number, the nearest of that class in view is meant.

    ## Reward and end
    1.0 for the right answer. Any answer of the right type ends the episode; one of the wrong type (a number to a yes
    or no question) is refused and costs a step. The step limit truncates; nothing is answered by itself.

    ## Tasks
    1,465 train and 162 test tasks, generated from split and number. They come in groups that share house, question and
    start and differ in the objects at the places that matter, so that every answer to a question is equally frequent:
    the best answer without looking is right half of the time (yes or no) or a quarter (counting). Difficulty is the
    number of rooms.

    ## Options
    ``view_range`` in metres (2.0) and ``view_angle`` in degrees (120.0) shape the view cone.

    ## Differences from the reference
    The reference plays in THOR scenes; this is a simulator of its own with the same kinds of questions and actions.
    Objects are numbered in the order of first sight, and an answer of the wrong type does not end the episode.

    ## Source
    Interactive question answering: Gordon et al. 2018, arXiv 1712.03316. In text: LangSuit-E (Jia et al. 2024).

    ## Example
    >>> import gymnasium
    >>> env = gymnasium.make("adaplan_envs:AdaPlan/IQA-v0")
    >>> observation, info = env.reset(options={"task_id": "iqa/test/0000"})
    >>> observation, reward, terminated, truncated, info = env.step("turn left")
    """

    name = "iqa"
    splits: ClassVar[Mapping[str, int]] = {"train": 1465, "test": 162}
    rulesets: ClassVar[Mapping[str, str]] = {"default": RULES}
    default_max_steps = 200
    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}

    _state: State

    def __init__(self, *, view_range: float = 2.0, view_angle: float = 120.0, **options: Any) -> None:
        super().__init__(**options)
        if not 1 <= view_range <= 4:
            raise ConfigError(f"view_range is {view_range}; it must be 1 to 4 metres (default 2.0)")
        if not 60 <= view_angle <= 180:
            raise ConfigError(f"view_angle is {view_angle}; it must be 60 to 180 degrees (default 120.0)")
        self._view = view_range, view_angle
        self._sight = sight(view_range, view_angle)
        self._house: House | None = None

    # -- tasks --------------------------------------------------------------------------------------------------

    def make_task(self, split: str, index: int) -> Task:
        problem = make_problem(split, index)
        goal = f"Answer the question: {problem.question.text}"
        return Task(self.task_id(split, index), split, index, goal, problem.scene.rooms, problem)

    @property
    def problem(self) -> Problem:
        """House, question and right answer of the running episode."""
        data = self.current_task.data
        assert isinstance(data, Problem)
        return data

    @property
    def house(self) -> House:
        """The house of the running episode, with the views of it so far."""
        scene = self.problem.scene
        if self._house is None or self._house.scene != scene:
            self._house = House(scene, self._sight)
        return self._house

    def _begin(self, task: Task, seed: int) -> str:
        scene = self.problem.scene
        self._state = State(scene.start, scene.heading)
        answers = " or ".join(self.problem.question.answers)
        return f"{self.problem.question.text} (Answer {answers}.)\n{self._observe()}"

    def _get_state(self) -> State:
        return self._state.copy()

    def _set_state(self, state: State) -> None:
        self._state = state.copy()

    # -- actions ------------------------------------------------------------------------------------------------

    def _apply(self, action: str) -> Outcome:
        match = _COMMAND.fullmatch(action.replace("_", " ").strip(_QUOTES))
        if match is None:
            text = "Not an action. Actions: move ahead, turn left, turn right, open X, close X, answer V."
            return Outcome(text, ActionStatus.UNPARSED, action)
        if match["move"]:
            return self._move()
        if match["turn"]:
            self._state.heading = (self._state.heading + (1 if match["turn"] == "right" else -1)) % 4
            return Outcome(self._observe(), ActionStatus.OK, f"turn {match['turn']}")
        if match["door"]:
            return self._open_or_close(match["door"], match["what"])
        return self._answer(match["answer"].strip(_QUOTES))

    def _move(self) -> Outcome:
        state = self._state
        ahead = state.cell + AHEAD[state.heading]
        if self.house.solid >> ahead & 1:
            blocked_by = self.house.view(state.cell, state.heading).blocked_by
            what = "A wall" if blocked_by in (None, WALL) else f"The {state.names[blocked_by]}"
            return Outcome(f"{what} is in the way.", ActionStatus.NO_EFFECT, "move ahead")
        state.cell = ahead
        return Outcome(self._observe(), ActionStatus.OK, "move ahead")

    def _open_or_close(self, verb: str, what: str) -> Outcome:
        state, house = self._state, self.house
        view = house.view(state.cell, state.heading)
        places = [glimpse.thing for glimpse in view.fixed if glimpse.thing < house.first_doorway]
        near = sorted(places, key=lambda place: view.distance_to(place) or 0.0)
        place = next((place for place in near if what in (state.names[place], house.kind(place))), None)
        if place is None:
            return Outcome(f"There is no {what} in view.", ActionStatus.INVALID, f"{verb} {what}")
        name = state.names[place]
        command = f"{verb} {name}"
        distance = view.distance_to(place)
        if not FURNITURE[house.kind(place)].opens:
            return Outcome(f"The {name} does not open or close.", ActionStatus.INVALID, command)
        if distance is None or round(distance, 1) > REACH:
            text = f"The {name} is {distance:.1f} m away, out of reach: come within {REACH:g} m."
            return Outcome(text, ActionStatus.INVALID, command)
        if (state.opened >> place & 1) == (verb == "open"):
            return Outcome(f"The {name} is {self._condition(place)} already.", ActionStatus.NO_EFFECT, command)
        state.opened ^= 1 << place
        return Outcome(self._observe(), ActionStatus.OK, command)

    def _answer(self, given: str) -> Outcome:
        question = self.problem.question
        answer = _ANSWERS.get(given, given)
        if answer not in question.answers:
            text = f"The answer to this question is one of: {', '.join(question.answers)}."
            return Outcome(text, ActionStatus.INVALID, f"answer {given}".strip())
        self._state.answer = answer
        right = answer == self.problem.answer
        text = f"{answer.capitalize()} is {'right' if right else 'wrong'}."
        return Outcome(text, ActionStatus.OK, f"answer {answer}", success=right, failed=not right)

    def admissible_actions(self) -> list[str]:
        """Return the commands that do something now."""
        state, house = self._state, self.house
        view = house.view(state.cell, state.heading)
        actions = ["move ahead"] if view.clear else []
        actions += ["turn left", "turn right"]
        for glimpse in view.fixed:
            thing, reachable = glimpse.thing, round(glimpse.bearing.distance, 1) <= REACH
            if thing < house.first_doorway and reachable and FURNITURE[house.kind(thing)].opens:
                actions.append(f"{'close' if state.opened >> thing & 1 else 'open'} {state.names[thing]}")
        return actions + [f"answer {answer}" for answer in self.problem.question.answers]

    # -- observations -------------------------------------------------------------------------------------------

    def _observe(self) -> str:
        """Look: remember what is in view, and return it in words."""
        state, house = self._state, self.house
        view = house.view(state.cell, state.heading)
        memory = state.memory
        memory.seen |= view.cells
        memory.solid |= view.cells & house.solid
        memory.opaque |= view.cells & house.opaque
        found: list[list[tuple[float, str]]] = [[] for _ in SECTORS]
        for (sector, distance, _), thing in view.fixed:
            name = self._named(thing)
            if thing >= house.first_doorway:
                found[sector].append((distance, f"{name} ({distance:.1f} m)"))
                continue
            place = house.scene.places[thing]
            is_open = bool(state.opened >> thing & 1)
            known = memory.places.get(name, SeenPlace(place.kind, 0, False))
            cells, looked_into = known.cells | place.cells & view.cells, known.looked_into or is_open
            memory.places[name] = SeenPlace(place.kind, cells, looked_into)
            condition = f"{self._condition(thing)}, " if FURNITURE[place.kind].opens else ""
            found[sector].append((distance, f"{name} ({condition}{distance:.1f} m)"))
            for item in house.contents.get(thing, ()) if is_open else ():
                found[sector].append((distance, f"{self._met(item, thing)} ({distance:.1f} m)"))
        for (sector, distance, _), item in view.items:
            place_number = house.scene.items[item - house.first_item].place
            found[sector].append((distance, f"{self._met(item, place_number)} ({distance:.1f} m)"))
        return "\n".join([f"You face {HEADINGS[state.heading]}. {self._way_ahead()}", *_by_sector(found)])

    def _way_ahead(self) -> str:
        state = self._state
        view = self.house.view(state.cell, state.heading)
        what = None
        if view.blocked_by is not None:
            what = "a wall" if view.blocked_by == WALL else state.names[view.blocked_by]
        if not view.clear:
            return f"Right ahead is {what}."
        return f"The way ahead is clear for {view.clear * CELL:g} m{f', then comes {what}' if what else ' or more'}."

    def _condition(self, place: int) -> str:
        return "open" if self._state.opened >> place & 1 else "closed"

    def _met(self, item: int, place: int) -> str:
        """Remember an object in view, and return its name and where it is."""
        name, on = self._named(item), self._state.names[place]
        self._state.memory.items.setdefault(name, SeenItem(self.house.kind(item), on))
        return f"{name} {'in' if FURNITURE[self.house.kind(place)].inside else 'on'} {on}"

    def _named(self, thing: int) -> str:
        """Return the name of a thing in view; on first sight it gets the next number of its class."""
        names = self._state.names
        if thing not in names:
            kind = self.house.kind(thing)
            names[thing] = f"{kind} {1 + sum(self.house.kind(other) == kind for other in names)}"
        return names[thing]

    # -- everything else ----------------------------------------------------------------------------------------

    def _make_expert(self) -> IQAExpert:
        return IQAExpert(lambda: (self._state, self.problem.question), self._sight, REACH)

    def hidden_facts(self) -> dict[str, Any]:
        return hidden_facts(self.problem, *self._view)

    def secrets(self) -> list[tuple[str, ...]]:
        answer = self.problem.answer
        rows = [(row,) for row in self.hidden_facts()["map"]]
        return [(f"answer is {answer}",), (f"answer: {answer}",), ("right_answer",), *rows]

    def facts(self, observation: str) -> dict[str, Any]:
        return read_facts(observation)

    def _rgb_array(self) -> Any:
        from adaplan_envs.iqa.render import draw

        return draw(self.house, self._state)


def _by_sector(found: list[list[tuple[float, str]]]) -> Iterator[str]:
    for sector, things in zip(SECTORS, found, strict=True):
        # Stable: at equal distance a receptacle comes before what it holds.
        words = [text for _, text in sorted(things, key=lambda thing: thing[0])]
        yield f"{sector.capitalize()}: {', '.join(words) or 'nothing'}."
