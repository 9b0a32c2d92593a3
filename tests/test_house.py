"""The structure of the project: what imports what, what is packaged, what the documents promise."""

from __future__ import annotations

import ast
import configparser
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

PACKAGES = {
    "adaplan_envs": ROOT / "adaplan_envs",
    "adaplan_agents": ROOT / "agents" / "adaplan_agents",
    "adaplan_evaluation": ROOT / "evaluation" / "adaplan_evaluation",
    "adaplan_training": ROOT / "training" / "adaplan_training",
}
"""In the order of their arrows: each may import those before it."""


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_dependencies_run_one_way(package: str) -> None:
    order = list(PACKAGES)
    above = set(order[order.index(package) + 1 :])
    offenders = {str(path): found for path in PACKAGES[package].rglob("*.py") if (found := imports(path) & above)}
    assert not offenders


def test_importing_the_suite_is_light() -> None:
    heavy = ["torch", "transformers", "openai", "textworld", "alfworld", "minigrid", "fastapi", "rich", "yaml", "httpx"]
    code = f"import sys, adaplan_envs; print([name for name in {heavy} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert (run.stdout.strip(), run.stderr) == ("[]", "")


def test_every_package_and_data_file_is_in_setup_cfg() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    listed = set(config["options"]["packages"].split())
    there = {
        ".".join([name, *path.parent.relative_to(folder).parts])
        for name, folder in PACKAGES.items()
        for path in folder.rglob("__init__.py")
    }
    assert listed == there


def test_every_extra_that_an_error_names_exists() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    extras = set(config["options.extras_require"])
    for folder in PACKAGES.values():
        for path in folder.rglob("*.py"):
            text = path.read_text()
            named = re.findall(r'require\("[\w.]+", (?:extra=)?"(\w+)"\)', text) + re.findall(r"adaplan\[(\w+)\]", text)
            assert set(named) <= extras, path


def test_make_has_the_targets_that_the_readme_names() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    named = set(re.findall(r"^make ([a-z-]+)", (ROOT / "README.md").read_text(), re.M))
    assert {"demo", "test"} <= named <= targets
