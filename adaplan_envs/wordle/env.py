"""Wordle."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from adaplan_envs.core import TextEnv, stable_rng
from adaplan_envs.errors import ConfigError
from adaplan_envs.types import ActionStatus, Outcome, Task
from adaplan_envs.wordle import words
from adaplan_envs.wordle.board import draw
from adaplan_envs.wordle.expert import WordleExpert
from adaplan_envs.wordle.facts import read_facts
from adaplan_envs.wordle.marking import SOLVED, mark, mark_naive

TRIES = 6
_COLOURS = {"g": "green", "y": "yellow", "b": "gray"}
_LEFT = ["No tries left.", "1 try left.", *(f"{n} tries left." for n in range(2, TRIES + 1))]

_RULES = f"""\
Find a hidden English word of five letters in at most {TRIES} guesses.
Every action is one guess: a word of five letters, such as crane.
The answer gives each letter of the guess a colour:
green - the hidden word has this letter in this place;
yellow - the hidden word has this letter in another place;
gray - the hidden word does not have this letter"""

_DEFAULT_RULES = f"""\
{_RULES}, or not once more: a letter that you guess twice
is marked twice only if the hidden word has it twice.
A guess that is not in the word list is refused and tells you nothing."""

_LMRL_RULES = f"""\
{_RULES}.
A guess that is not in the word list, or not in small letters, uses up a try and tells you nothing."""


@lru_cache(maxsize=2**14)
def _describe(guess: str, marks: str) -> tuple[str, int]:
    """Return the marks in words, and their points for the score."""
    text = ", ".join([f"{letter} {_COLOURS[m]}" for letter, m in zip(guess, marks, strict=True)])
    return text, 2 * marks.count("g") + marks.count("y")


@dataclass(slots=True)
class _Game:
    """An episode in progress."""

    hidden: str | None
    """The word to find; None under the lmrl rules, which draw it anew for every guess."""
    remaining: tuple[str, ...] = ()
    """lmrl: the words that are consistent with all marks so far."""
    rng: random.Random | None = None
    """lmrl: what the draws come from."""
    history: list[tuple[str, str]] = field(default_factory=list)
    """Accepted guesses and their marks, a letter g, y or b for each letter."""
    tries_left: int = TRIES
    feedback: str = ""
    points: int = 0
    """Of the best guess: 2 for every green letter, 1 for every yellow one."""
    solved: bool = False


class WordleEnv(TextEnv):
    """Find a hidden five-letter word in six guesses.

    ## Description
    The official game: a fixed hidden word out of 2,300 common English words; each guess is answered with a colour for
    every letter. It asks for reasoning over what earlier answers rule out, and for guesses that tell much.

    ## Observation
    The guess with the colour of each letter, and the number of tries left, such as
    ``c gray, r yellow, a gray, n green, e gray. 5 tries left.``; for a refused guess, why it was refused. When the
    last try is spent, the hidden word.

    ## Actions
    A five-letter word, in one piece or letter by letter: ``crane``, ``CRANE``, ``c r a n e``. About 11,000 words are
    understood; `admissible_actions` lists only the 2,300 that can be hidden, less those that were guessed already.

    ## Reward and end
    1.0 for the hidden word, which ends the episode; else 0. The sixth counted guess ends it without success. Refused
    guesses count towards ``max_steps`` (12) only. The score is that of the best guess so far: 2 points for a green
    and 1 for a yellow letter, of 10.

    ## Tasks
    ``train`` 860 and ``test`` 95 hidden words, without overlap. Difficulty: 1 plus the number of possible answers
    that differ from the hidden word in one letter, which is what makes words such as ``light`` hard.

    ## Options
    ``refused_costs_try=True``: a refused guess uses up a try. ``rules="lmrl"`` and, for these rules only,
    ``vocabulary``: the words that can be guessed and hidden (default: the 2,300 answers).
    ``info["feedback"]`` holds the marks of the last guess, such as ``byggb`` (empty if refused), and
    ``info["tries_left"]`` the tries left.

    ## Differences from the reference
    ``rules="lmrl"`` plays by LMRL-Gym's rules: every valid guess draws a hidden word anew from the words that are
    still consistent, by ``random.Random(seed)``; every letter is marked on its own, however often the word has it;
    and an invalid word, or one with capitals, uses up a try. Its reward is ours minus 1. The default rules hide one
    word for the whole episode, mark repeated letters as the official game does, and refuse an invalid word without
    cost.

    ## Source
    Rules of the New York Times game; LMRL-Gym, arXiv 2311.18232, and AgentGym, arXiv 2406.04151, for ``lmrl``.

    ## Example
        env = gym.make("adaplan_envs:AdaPlan/Wordle-v0", split="test")
        observation, info = env.reset(seed=0)
        observation, reward, terminated, truncated, info = env.step("crane")

    Args:
        vocabulary: see Options.
        refused_costs_try: see Options; always so under the lmrl rules.
        **kwargs: see `TextEnv`.

    Raises:
        ConfigError: a vocabulary under the default rules, an empty one, or one with a word that is none.
    """

    name = "wordle"
    splits = {"train": words.TRAIN, "test": words.TEST}
    rulesets = {"default": _DEFAULT_RULES, "lmrl": _LMRL_RULES}
    default_max_steps = 2 * TRIES
    spelled = True
    extra_info = ("feedback", "tries_left")
    metadata = {"render_modes": ["ansi", "rgb_array"]}
    _state: _Game

    def __init__(
        self, *, vocabulary: Sequence[str] | None = None, refused_costs_try: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        lmrl = self.ruleset == "lmrl"
        if vocabulary is not None and not lmrl:
            raise ConfigError('vocabulary is an option of the lmrl rules: add rules="lmrl", or leave it out')
        self.pool = words.answers() if vocabulary is None else words.check_vocabulary(vocabulary)
        """The words that can be hidden."""
        self._valid = frozenset(self.pool) if lmrl else words.guesses()
        self._refused_costs_try = refused_costs_try or lmrl
        self._task_given = False
        self._as_given = ""

    @property
    def rules(self) -> str:
        text = super().rules
        return f"{text} It uses up a try all the same." if self._refused_costs_try and self.ruleset != "lmrl" else text

    @property
    def history(self) -> list[tuple[str, str]]:
        """The accepted guesses and their marks (``g``, ``y``, ``b`` for each letter), oldest first."""
        return self._state.history

    @property
    def tries_left(self) -> int:
        """Tries left in this episode."""
        return self._state.tries_left

    @property
    def solved(self) -> bool:
        """Whether the hidden word was found."""
        return self._state.solved

    def make_task(self, split: str, index: int) -> Task:
        goal = f"Find the hidden five-letter word in at most {TRIES} guesses."
        if self.ruleset == "lmrl":  # which word it is comes out during play
            return Task(self.task_id(split, index), split, index, goal, 1)
        word = words.answers()[index if split == "test" else words.TEST + index]
        return Task(self.task_id(split, index), split, index, goal, 1 + words.neighbours(word), word)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        self._task_given = bool(options and options.get("task_id"))
        return super().reset(seed=seed, options=options)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self._as_given = action  # the lmrl rules mind the case, which `_apply` does not see
        return super().step(action)

    def _begin(self, task: Task, seed: int) -> str:
        if self.ruleset == "lmrl":
            # As in the reference, the seed decides the game; of two tasks asked for by id each has games of its own.
            rng = stable_rng(task.id, seed) if self._task_given else random.Random(seed)
            self._state = _Game(None, self.pool, rng)
        else:
            self._state = _Game(task.data)
        return f"A five-letter word is hidden. You have {TRIES} tries."

    def _apply(self, action: str) -> Outcome:
        game = self._state
        guess = action.replace(" ", "")
        if guess not in self._valid or (game.hidden is None and guess != "".join(self._as_given.split())):
            return self._refuse(action, guess)
        if game.hidden is not None:
            marks = mark(guess, game.hidden)
        else:
            assert game.rng is not None
            marks = mark_naive(guess, game.rng.choice(game.remaining))
            game.remaining = tuple(word for word in game.remaining if mark_naive(guess, word) == marks)
        played = (guess, marks)
        status = ActionStatus.NO_EFFECT if played in game.history else ActionStatus.OK
        game.history.append(played)
        game.feedback = marks
        game.solved = marks == SOLVED
        game.tries_left -= 1
        text, points = _describe(guess, marks)
        if points > game.points:
            game.points = points
        if game.solved:
            return Outcome(f"{text}. Solved.", ActionStatus.OK, guess, True)
        return Outcome(f"{text}. {self._tries()}", status, guess, False, not game.tries_left)

    def _refuse(self, action: str, guess: str) -> Outcome:
        game = self._state
        game.feedback = ""
        if guess in self._valid:
            status, understood = ActionStatus.INVALID, guess
            reason = f"Write {guess} in small letters."
        elif words.is_word(guess):
            status, understood = ActionStatus.INVALID, guess
            reason = f"{guess} is not in the word list."
        else:
            status, understood = ActionStatus.UNPARSED, action
            shown = action if len(action) <= 20 else action[:20] + "..."
            reason = f"'{shown}' is not a guess: it must be one word of five letters a-z, such as crane."
        if self._refused_costs_try:
            game.tries_left -= 1
        return Outcome(f"{reason} {self._tries()}", status, understood, failed=not game.tries_left)

    def _tries(self) -> str:
        game = self._state
        text = _LEFT[game.tries_left]
        return text if game.tries_left or not game.hidden else f"{text} The word was {game.hidden}."

    def _make_expert(self) -> WordleExpert:
        return WordleExpert(self)

    def admissible_actions(self) -> list[str]:
        """Return the words that can be hidden, less those guessed already, in alphabetical order."""
        guessed = {guess for guess, _ in self._state.history}
        return [word for word in self._sorted_pool if word not in guessed]

    @cached_property
    def _sorted_pool(self) -> list[str]:
        return sorted(self.pool)

    def _score(self) -> float:
        return self._state.points / 10

    def _extra_info(self) -> dict[str, Any]:
        return {"feedback": self._state.feedback, "tries_left": self._state.tries_left}

    def hidden_facts(self) -> dict[str, Any]:
        game = self._state
        if game.hidden is not None:
            return {"hidden_word": game.hidden}
        # The lmrl rules hide no word: a simulator has to pick one.
        return {"hidden_word": game.remaining[self._seed % len(game.remaining)]}

    def secrets(self) -> list[tuple[str, ...]]:
        return [(self.hidden_facts()["hidden_word"],)]

    def facts(self, observation: str) -> dict[str, Any]:
        return read_facts(observation)

    def _ansi(self) -> str:
        rows = [" ".join(guess.upper()) + "\n" + " ".join(marks) for guess, marks in self.history]
        return "\n".join([*rows, self._tries() if not self.solved else "Solved."])

    def _rgb_array(self) -> Any:
        return draw(self.history, TRIES)
