"""What a result must carry so that somebody else can get it again."""

from __future__ import annotations

import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import adaplan_envs

_RECORDED = {
    "numpy": "numpy",
    "gymnasium": "gymnasium",
    "torch": "torch",
    "transformers": "transformers",
    "vllm": "vllm",
    "openai": "openai",
    "textworld": "textworld",
    "alfworld": "alfworld",
    "minigrid": "minigrid",
}
"""Module -> distribution, of what can change a result."""


def versions() -> dict[str, str]:
    """Return the versions of Python, of this package, and of those in the list above that are loaded now."""
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for module, distribution in {"adaplan_envs": "adaplan", **_RECORDED}.items():
        if module in sys.modules:
            try:
                found[distribution] = version(distribution)
            except PackageNotFoundError:  # run from a checkout that is not installed; `commit` says what it is
                found[distribution] = "not installed"
    return found


def commit() -> str | None:
    """Return the git commit of the checkout that this code runs from, with ``+changes`` where files differ from it.

    None where it does not run from a checkout. A package installed below somebody else's checkout is not taken for one.
    """
    package = Path(adaplan_envs.__file__).resolve()
    root = package.parent.parent

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(root), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", str(package))
        return git("rev-parse", "HEAD") + ("+changes" if git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return None
