"""Chat templates piece by piece, so that a conversation grows at its end and is never rendered anew."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adaplan_envs.errors import ConfigError, ModelAccessError

_log = logging.getLogger(__name__)

PLAIN = (
    "{% for message in messages %}{{ message['role'] | capitalize }}:\n{{ message['content'] }}"
    "{% if message['role'] == 'assistant' %}{{ eos_token or '' }}{% endif %}{{ '\n\n' }}{% endfor %}"
    "{% if add_generation_prompt %}Assistant:\n{% endif %}"
)
"""``chat_template="plain"``, and what models without a template get."""

_WORDS = tuple(f"zq{letter}piece" for letter in "abcdefg")  # blanks trimmed or not, they come back as they are
_THINKING = "<think>\nzqthinking\n</think>\n\n"


@dataclass(frozen=True, slots=True)
class Pieces:
    """The texts that a template puts around contents.

    Attributes:
        head: in front of a first message of the user.
        system: in front of a system message and behind it, up to the user's content; None where the template has none,
            and the system text begins the user's first message instead.
        generate: from the user's content to the assistant's.
        next_user: from the assistant's content to the user's next.
    """

    head: str
    system: tuple[str, str] | None
    generate: str
    next_user: str


def find_pieces(tokenizer: Any, template: str | Path | None, keep_history: bool, options: Mapping[str, Any]) -> Pieces:
    """Take the chat template of a tokenizer apart.

    Args:
        tokenizer: of transformers.
        template: another one: ``plain``, Jinja text, or a file with it; None for the tokenizer's own, or ``plain`` with
            a warning where it has none.
        keep_history: take a template that rewrites earlier turns for its pieces only, and keep the turns as they are.
        options: passed to the template, such as ``{"enable_thinking": False}``.

    Raises:
        ModelAccessError: the template fails, or it rewrites earlier turns; the message says what mends it.
    """
    text = _template_text(tokenizer, template)

    def render(roles: str, contents: Sequence[str], generate: bool = True) -> str:
        names = {"s": "system", "u": "user", "a": "assistant"}
        messages = [{"role": names[role], "content": content} for role, content in zip(roles, contents, strict=True)]
        return str(
            tokenizer.apply_chat_template(
                messages, chat_template=text, tokenize=False, add_generation_prompt=generate, **options
            )
        )

    def split(roles: str) -> list[str]:
        return _between(render(roles, _WORDS[: len(roles)]), _WORDS[: len(roles)])

    try:
        head, generate = split("u")
        _, _, *history = split("uauau")
    except Exception as error:  # whatever a template raises
        raise ModelAccessError(
            f"the model's chat template can't be used ({error}); give another: chat_template='plain', or a Jinja file"
        ) from None
    if not keep_history:
        _refuse_rewriting(render, generate, split("uauau"))
    return Pieces(head, _system_pieces(split, generate), generate, history[0])


def _template_text(tokenizer: Any, template: str | Path | None) -> str:
    if template == "plain":
        return PLAIN
    if template is None:
        if not tokenizer.chat_template:
            _log.warning(
                "%s has no chat template; it is used with chat_template='plain' (role names in front of the texts).",
                getattr(tokenizer, "name_or_path", "") or "The model",
            )
            return PLAIN
        found: str = tokenizer.get_chat_template()
        return found
    if isinstance(template, str) and "{" in template:
        return template
    if not Path(template).is_file():
        raise ConfigError(
            f"chat_template: there is no file {str(template)!r}; give 'plain', a Jinja file or Jinja text"
        )
    return Path(template).read_text(encoding="utf-8")


def _between(text: str, contents: Sequence[str]) -> list[str]:
    """Return what stands in front of, between and behind `contents`."""
    pieces = []
    for content in contents:
        before, found, text = text.partition(content)
        if not found or content in text:
            raise ValueError("it leaves a message out, moves or repeats it")
        pieces.append(before)
    return [*pieces, text]


def _system_pieces(split: Callable[[str], list[str]], generate: str) -> tuple[str, str] | None:
    try:
        first, last = split("su"), split("suau")
    except Exception:  # "System role not supported", or it goes into the latest message of the user
        return None
    return (first[0], first[1]) if first[:2] == last[:2] and first[2] == generate else None


def _refuse_rewriting(render: Callable[..., str], generate: str, pieces: list[str]) -> None:
    """Make sure that an earlier turn looks to the model as it did when it was the newest."""
    _, first_answer, first_next, second_answer, second_next, last = pieces
    reason = ""
    if not generate == first_answer == second_answer == last:
        reason = f"an answer begins after {generate!r}, and after {first_answer!r} when it is history"
    elif first_next != second_next:
        reason = f"turns are joined by {first_next!r} here and {second_next!r} there"
    else:
        words = [word if number % 2 == 0 else _THINKING + word for number, word in enumerate(_WORDS[:5])]
        if render("uauau", words).count("zqthinking") < 2:
            reason = "reasoning in <think> is removed from earlier answers"
    if not reason:
        shorter, longer = (render("uauau"[:size], _WORDS[:size], generate=False) for size in (3, 5))
        common = sum(1 for _ in _common(shorter, longer))
        if _WORDS[2] not in longer[:common]:
            reason = "the beginning changes as the conversation grows"
    if reason:
        raise ModelAccessError(
            f"the model's chat template rewrites earlier turns ({reason}), so that the model would later read another "
            "text than it wrote. Give keep_history=True to keep every turn as it was sampled, template options that "
            "stop it, or another template: chat_template='plain' or a Jinja file"
        )


def _common(one: str, other: str) -> Any:
    for left, right in zip(one, other, strict=False):
        if left != right:
            return
        yield left
