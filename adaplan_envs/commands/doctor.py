"""`adaplan doctor`: is everything that this installation needs there, and what mends what is not."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

import platformdirs
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from adaplan_envs.cli import Command
from adaplan_envs.errors import check_name
from adaplan_envs.registration import SUITE

_PROJECT = "adaplan"
_HIDDEN = {"all", "bench", "dev"}
"""Extras that are shown only when they are asked for."""
_BUILT = "fast-downward-textworld"
"""The one dependency that pip must compile; ALFWorld needs it."""
_PATIENCE = 300  # seconds for one import or one reset in a process of its own; torch on a cold disk takes a minute


class Status(StrEnum):
    """What a check found."""

    OK = "ok"
    NOTE = "note"
    """Not usable, but not asked for either."""
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Check:
    """One finding.

    Attributes:
        name: what was looked at.
        status: what was found.
        detail: versions, or what is wrong.
        mend: the command line that mends it, or None.
    """

    name: str
    status: Status
    detail: str
    mend: str | None = None


def _severity(asked: bool) -> Status:
    return Status.BROKEN if asked else Status.NOTE


def requirements(extra: str | None = None) -> list[Requirement]:
    """Return what this project requires, always (`extra` is None) or for one extra, extras within extras included.

    Raises:
        importlib.metadata.PackageNotFoundError: this project is not installed.
    """
    found: dict[str, Requirement] = {}
    for requirement in map(Requirement, importlib.metadata.requires(_PROJECT) or ()):
        marker = requirement.marker
        always = marker is None or marker.evaluate({"extra": ""})
        if always is not (extra is None) or (marker is not None and not marker.evaluate({"extra": extra or ""})):
            continue
        nested = sorted(requirement.extras) if canonicalize_name(requirement.name) == _PROJECT else ()
        for part in [part for name in nested for part in requirements(name)] if nested else [requirement]:
            found.setdefault(str(part.name), part)
    return list(found.values())


def check_python() -> Check:
    """Check the Python version against what the package asks for."""
    wanted = importlib.metadata.metadata(_PROJECT)["Requires-Python"]
    version = platform.python_version()
    detail = f"{version} at {sys.executable}"
    if Requirement(f"python{wanted}").specifier.contains(Version(version), prereleases=True):
        return Check("python", Status.OK, detail)
    return Check("python", Status.BROKEN, f"{detail}; needs {wanted}", f"use a Python {wanted}")


def check_packages(extra: str | None, asked: bool) -> Check:
    """Check the packages of an extra (None: those always needed) for presence and version."""
    there, missing, unfit = [], [], []
    for requirement in requirements(extra):
        try:
            version = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            missing.append(requirement.name)
            continue
        if requirement.specifier.contains(version, prereleases=True):
            there.append(f"{requirement.name} {version}")
        else:
            unfit.append(f"{requirement.name} is {version}, needs {requirement.specifier}")
    name = f"extra {extra}" if extra else "packages"
    if not missing and not unfit:
        return Check(name, Status.OK, ", ".join(there))
    mend = f'pip install "{_PROJECT}[{extra}]"' if extra else f"pip install --upgrade {_PROJECT}"
    problems = "; ".join(([f"missing: {', '.join(missing)}"] if missing else []) + unfit)
    return Check(name, _severity(asked), problems, mend)


def check_imports(extra: str) -> Iterator[Check]:
    """Import every package of `extra` and reset its environment, each in a process of its own: one may crash."""
    modules: dict[str, list[str]] = {}
    for module, distributions in importlib.metadata.packages_distributions().items():
        for distribution in distributions:
            modules.setdefault(canonicalize_name(distribution), []).append(module)
    for requirement in requirements(extra):
        name = canonicalize_name(requirement.name)
        for module in sorted({m for m in modules.get(name, ()) if canonicalize_name(m) == name}):
            error = _failure(f"import {module}")
            if error:
                mend = f'pip install --force-reinstall "{requirement.name}{requirement.specifier}"'
                yield Check(f"import {module}", Status.BROKEN, error, mend)
    for entry in SUITE:
        if entry.extra == extra and entry.installed:
            error = _failure(f"import gymnasium; gymnasium.make('adaplan_envs:{entry.id}').reset(seed=0)")
            if error:
                yield Check(entry.id, Status.BROKEN, error, f'pip install --force-reinstall "{_PROJECT}[{extra}]"')
            else:
                yield Check(entry.id, Status.OK, "an episode begins")


def _failure(code: str) -> str | None:
    """Run `code` in another Python and return the last line of its error, or None when it went well."""
    try:
        done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        return f"no answer within {_PATIENCE} s"
    if done.returncode == 0:
        return None
    return next(iter(done.stderr.strip().splitlines()[-1:]), f"died with exit code {done.returncode}")


def check_build_tools(asked: bool) -> Check:
    """Check for what pip needs to build ALFWorld's planner, unless that is built already."""
    try:
        version = importlib.metadata.version(_BUILT)
        return Check("build tools", Status.OK, f"not needed: {_BUILT} {version} is built")
    except importlib.metadata.PackageNotFoundError:
        pass
    status = _severity(asked)
    if shutil.which("g++") is None:
        mend = "apt-get install g++" if sys.platform == "linux" else "install a C++ compiler that answers to g++"
        return Check("build tools", status, f"no g++, which builds {_BUILT} (ALFWorld)", mend)
    cmake = shutil.which("cmake")
    if cmake is None:
        return Check("build tools", status, f"no cmake, which builds {_BUILT} (ALFWorld)", 'pip install "cmake<4"')
    said = subprocess.run([cmake, "--version"], capture_output=True, text=True, timeout=_PATIENCE).stdout
    version = said.split()[2] if len(said.split()) > 2 else "?"
    if version.partition(".")[0].isdigit() and int(version.partition(".")[0]) >= 4:
        detail = f"cmake {version} is too new to build {_BUILT} (ALFWorld), which needs one below 4"
        return Check("build tools", status, detail, 'pip install "cmake<4"')
    return Check("build tools", Status.OK, f"g++ and cmake {version}")


_ASK_TORCH = (
    "import json, torch; gpu = torch.cuda.is_available(); print(json.dumps([torch.__version__, torch.get_num_threads(),"
    " [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())] if gpu else []]))"
)


def check_torch(asked: bool) -> Check:
    """Say on what torch computes: GPUs, or CPU threads."""
    try:
        importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        detail = "not installed: no language model runs in process"
        return Check("torch", _severity(asked), detail, 'pip install "adaplan[hf]"')
    try:
        command = [sys.executable, "-P", "-c", _ASK_TORCH]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=True)
        version, threads, devices = json.loads(done.stdout)
    except (subprocess.SubprocessError, ValueError) as error:
        last = str(getattr(error, "stderr", None) or error).strip().splitlines()[-1]
        return Check("torch", _severity(asked), last, "pip install --force-reinstall torch")
    where = f"GPU: {', '.join(devices)}" if devices else f"CPU, {threads} threads, no GPU"
    return Check("torch", Status.OK, f"{version} on {where}")


def check_cache() -> Check:
    """Check that the cache folder takes files."""
    folder = Path(platformdirs.user_cache_dir(_PROJECT))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x")
    except OSError as error:
        mend = f"make {folder} writable, or set XDG_CACHE_HOME to a folder that is"
        return Check("cache", Status.BROKEN, f"{folder}: {error.strerror}", mend)
    return Check("cache", Status.OK, str(folder))


def examine(asked: list[str]) -> list[Check]:
    """Return every check; `asked` are the extras that have to work, which are tried out and not only looked up.

    Raises:
        UnknownNameError: no such extra.
    """
    try:
        metadata = importlib.metadata.metadata(_PROJECT)
    except importlib.metadata.PackageNotFoundError:
        return [Check(_PROJECT, Status.BROKEN, "not installed", "pip install -e . (in the checkout)"), check_cache()]
    extras = metadata.get_all("Provides-Extra") or []
    for extra in asked:
        check_name("extra", extra, extras)
    needed = {canonicalize_name(requirement.name) for extra in asked for requirement in requirements(extra)}
    checks = [
        Check(_PROJECT, Status.OK, f"{metadata['Version']} at {Path(__file__).parents[1]}"),
        check_python(),
        check_packages(None, asked=True),
    ]
    for extra in sorted(extras):
        if extra in asked or extra not in _HIDDEN:
            checks.append(check_packages(extra, asked=extra in asked))
        if extra in asked and checks[-1].status is Status.OK:
            checks.extend(check_imports(extra))
    checks.append(check_build_tools(asked="alfworld" in needed))
    checks.append(check_torch(asked="torch" in needed))
    checks.append(check_cache())
    return checks


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--extra",
        action="append",
        default=[],
        metavar="NAME",
        help="this extra has to work: import its packages and begin an episode of its environment (repeatable)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def _run(args: argparse.Namespace) -> int:
    checks = examine(list(dict.fromkeys(args.extra)))
    broken = any(check.status is Status.BROKEN for check in checks)
    if args.json:
        print(json.dumps([asdict(check) for check in checks], indent=2))
        return int(broken)
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    colours = {Status.OK: "green", Status.NOTE: "yellow", Status.BROKEN: "bold red"}
    table = Table("", "", "", show_header=False, box=None, padding=(0, 1))
    for check in checks:
        table.add_row(Text(check.name, no_wrap=True), Text(check.status, colours[check.status]), Text(check.detail))
    Console().print(table)
    for status, title in ((Status.BROKEN, "To mend what is broken:"), (Status.NOTE, "If you want what is optional:")):
        lines = dict.fromkeys(check.mend for check in checks if check.status is status and check.mend)
        if lines:
            print("\n".join(["", title, *(f"  {line}" for line in lines)]))
    return int(broken)


COMMAND = Command(
    "check the installation and say what mends it",
    _configure,
    _run,
    description="Check the installation. Exit code 1 when something always needed, or an --extra, does not work.",
)
