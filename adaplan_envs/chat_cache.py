"""Answers of language models kept on disk by content, so that a repeated run costs nothing."""

from __future__ import annotations

import hashlib
import json
import logging
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from adaplan_envs.chat_types import ChatReply, Usage

_log = logging.getLogger(__name__)


def cache_path(folder: Path, content: Any) -> Path:
    """Return where in `folder` the answer to `content`, anything that JSON can hold, is kept."""
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, default=str)
    name = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return folder / name[:2] / f"{name}.json"


def read_cache(path: Path) -> ChatReply | None:
    """Return the kept answer; it costs nothing. One that can't be read is as good as none."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        usage = Usage(kept["usage"]["prompt_tokens"], kept["usage"]["completion_tokens"])
        return ChatReply(kept["text"], usage, kept["finish_reason"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_cache(path: Path, reply: ChatReply) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as work:
            whole = Path(work) / "reply"
            whole.write_text(json.dumps(asdict(reply)), encoding="utf-8")
            whole.replace(path)
    except OSError as error:
        _log.warning("an answer could not be kept in the cache: %s", error)
