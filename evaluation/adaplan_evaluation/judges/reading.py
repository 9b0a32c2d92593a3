"""From a plan's step, which is words, to commands.

A step is brought into the environment's own wording first: lower case, no articles, and the synonyms of the table below
("put X in or on Y" is ``move X to Y`` in ALFWorld, "from" is ``using`` in TextCraft). Then:

- *Does this command do what the step says?* It does if its words stand in the step, in order and side by side.
- *Which command is this step, in this state?* The admissible command that stands in the step (the earliest, then the
  longest); where the step names no number, one that stands in it but for its number. Else the environment's own parser
  decides between the step as a whole and its first clause, see `adaplan_evaluation.judges.plan_quality`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from adaplan_envs.core import TextEnv, stable_rng
from adaplan_envs.wordle.env import WordleEnv
from adaplan_envs.wordle.marking import mark, mark_naive

_SYNONYMS: dict[str, tuple[tuple[re.Pattern[str], str], ...]] = {
    env: tuple((re.compile(pattern), words) for pattern, words in rows)
    for env, rows in {
        "alfworld": (
            (r"\b(?:put|place) (.{1,60}?) (?:in or on|in/on|inside|into|onto|in|on) ", r"move \1 to "),
            (r"\b(?:pick up|grab|get) (.{1,60}?) from ", r"take \1 from "),
            (r"\b(?:turn on|switch on|toggle) ", "use "),
            (r"\b(?:walk|head|move|navigate) to\b", "go to"),
            (r"\b(?:wash|rinse) ", "clean "),
        ),
        "babyai": (
            (r"\bpickup\b", "pick up"),
            (r"\b(?:walk|move|navigate) to\b", "go to"),
            (r"\b(?:go|walk|step|move) (?:straight ahead|ahead|straight|forwards?)\b", "move forward"),
        ),
        "iqa": ((r"\b(?:go|walk|step|move) (?:straight ahead|ahead|straight|forwards?)\b", "move ahead"),),
        "maze": ((r"\b(?:go|walk|step|head) (?=up|down|left|right)", "move "),),
        "textcraft": (
            (r"\b(?:fetch|obtain|gather|collect|mine) ", "get "),
            (r"\b(?:make|build|create) ", "craft "),
            (r"(?<=\w) (?:from|with|out of) (?=\d)", " using "),
        ),
    }.items()
}
_NUMBERED = re.compile(r"^(?:step )?\d{1,4}[.):] ")
_ARTICLES = re.compile(r"\b(?:the|an?) ")
_WORD = re.compile(r"[a-z0-9_/']+")
_CLAUSE = re.compile(
    r",? (?:to (?=look|get|put|reach|clean|heat|cool|see|find|pick|make|split|take|open|check)|unless|because|so that|"
    r"in order to|until|where|which|if|when|and then|then|so)\b|[;:(]|\. "
)
_SEVERAL = re.compile(r"\b(?:or|either|then)\b|;")
_ROW = re.compile(
    r"(?:,|;| and) (?:and )?(?:then )?(?:answer|clean|close|cool|craft|drop|examine|get|go|guess|heat|move|open|pick|"
    r"put|slice|take|toggle|turn|use)\b"
)
"""A further command in one step; "toggle and go through" is one command."""
_DIRECTIONS = re.compile(r"\b(?:move|turn) (?:up|down|left|right)(?:,? (?:and )?(?:up|down|left|right)\b)")
_NEGATION = frozenset({"not", "don't", "avoid", "never", "instead"})
_MINOR = frozenset({"to", "from", "in", "on", "with", "using", "and", "or", "of"})
_GUESS = re.compile(r"\b(?:guess|try|play|word(?: is)?|answer)[ :]*[\"'`]?([a-z]{5})\b")
_SHOUTED = re.compile(r"\b([A-Z]{5})\b")
_NO_GUESS = re.compile(r"words|which|other|after|again|first|their|there|these|those|using|based|every|until")
"""Five-letter words that stand behind "guess" without being one."""


def wording(env: str, step: str) -> str:
    """Return `step` in the wording of environment `env` (the first part of its task ids)."""
    text = " ".join(step.lower().replace("’", "'").split()).rstrip(" .!")
    text = _ARTICLES.sub("", _NUMBERED.sub("", text))
    for pattern, words in _SYNONYMS.get(env, ()):
        text = pattern.sub(words, text)
    return text


def suggests_several(env: str, step: str) -> bool:
    """Whether a step offers a choice of commands, or a row of them."""
    if env == "wordle":
        return len(_guesses(step)) > 1
    text = wording(env, step).replace("toggle and go through", "go through")
    return any(pattern.search(text) for pattern in (_SEVERAL, _ROW, _DIRECTIONS))


def adherence(env: str, step: str, command: str) -> tuple[int, str]:
    """Return how far `command` does what `step` says, and why: 2 (does it), 1 (in part), 0 (does something else).

    In part: the same verb or object, or one of several commands that the step offers. Where the command is a direction
    (``move up``, ``turn left``), the direction alone decides.
    """
    if env == "wordle":
        return _wordle_adherence(step, command)
    text = wording(env, step)
    said, done = _words(text), _words(command)
    if not done:
        return 0, "no command"
    if _find(said, done) is not None:
        several = suggests_several(env, step)
        return (1, "one of several that the step offers") if several else (2, "the command of the step")
    if sorted(said) == sorted(done):  # ingredients in another order
        return 2, "the command of the step"
    if len(done) == 2 and done[0] in ("move", "turn"):
        return 0, "another direction"
    if any(word in said for word in done[1:] if not word.isdigit() and word not in _MINOR):
        return 1, "the same object"
    if said and said[0] == done[0]:
        return 1, "the same verb"
    return 0, "something else"


def commands(env: TextEnv, step: str) -> list[str]:
    """Return the commands that `step` may mean in the present state, the likeliest first; none where it names none."""
    if isinstance(env, WordleEnv):
        return _wordle_commands(env, step)
    text = wording(env.name, step)
    said = _words(text)
    if not said:
        return []
    admissible = [(command, _words(command)) for command in env.admissible_actions() or ()]
    found = _standing_in(said, admissible)
    if not any(word.isdigit() for word in said):
        found += _standing_in(said, [(command, _without_numbers(words)) for command, words in admissible])
    clause = _CLAUSE.split(text, maxsplit=1)[0]
    return list(dict.fromkeys([*found[:2], text, clause, clause.partition(",")[0]]))


def _standing_in(said: list[str], listed: list[tuple[str, list[str]]]) -> list[str]:
    places = [(at, -len(words), command) for command, words in listed if (at := _find(said, words)) is not None]
    return [command for _, _, command in sorted(places)]


def _words(text: str) -> list[str]:
    return _WORD.findall(text)


def _without_numbers(words: list[str]) -> list[str]:
    return [word for word in words if not word.isdigit()]


def _find(said: list[str], wanted: list[str]) -> int | None:
    """Return where `wanted` stands in `said` as a whole and not denied, or None."""
    for at in range(len(said) - len(wanted) + 1):
        if said[at : at + len(wanted)] == wanted and not _NEGATION.intersection(said[max(0, at - 3) : at]):
            return at
    return None


# -- Wordle, whose commands are words among words ------------------------------------------------------------------


def _guesses(step: str) -> list[str]:
    """Return the guesses that a step names: after "guess" and the like, in capitals, or as all that it says."""
    alone = step.strip(" .!\"'`").lower()
    if len(alone) == 5 and alone.isalpha() and alone.isascii():
        return [alone]
    found = [*_guessed(step), *(word.lower() for word in _SHOUTED.findall(step))]
    return list(dict.fromkeys(found))


def _guessed(step: str) -> Iterator[str]:
    return (word for word in _GUESS.findall(step.lower()) if not _NO_GUESS.fullmatch(word))


def _leaves_word_open(step: str) -> bool:
    """Whether the step asks for a guess without naming it: "guess a word that fits all marks"."""
    return not _guesses(step) and re.search(r"\b(?:guess|word|try)", step.lower()) is not None


def _wordle_adherence(step: str, command: str) -> tuple[int, str]:
    named = _guesses(step)
    if command in named:
        return (2, "the word of the step") if len(named) == 1 else (1, "one of several words that the step offers")
    if _leaves_word_open(step) and len(command) == 5:
        return 1, "a guess, whose word the step leaves open"
    return 0, "another word"


def _wordle_commands(env: WordleEnv, step: str) -> list[str]:
    named = _guesses(step)
    if named or not _leaves_word_open(step):
        return named
    # Any word will do that fits what is known; which one must not depend on anything but the state.
    marked = mark_naive if env.ruleset == "lmrl" else mark
    fits = [word for word in env.pool if all(marked(guess, word) == marks for guess, marks in env.history)]
    fits.sort()
    return [stable_rng("open guess", env.current_task.id, len(env.history)).choice(fits)] if fits else []
