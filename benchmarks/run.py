"""Runs every benchmark, each in a process of its own: `make bench`, or `python benchmarks/run.py textcraft wordle`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main(wanted: list[str]) -> int:
    names = [path.stem.removeprefix("bench_") for path in sorted(HERE.glob("bench_*.py"))]
    unknown = sorted(set(wanted) - set(names))
    if unknown:
        print(f"no such benchmark: {', '.join(unknown)}. There are: {', '.join(names)}", file=sys.stderr)
        return 2
    failed = []
    for name in wanted or names:
        print(f"== {name}", flush=True)
        if subprocess.run([sys.executable, str(HERE / f"bench_{name}.py")], cwd=HERE.parent).returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
