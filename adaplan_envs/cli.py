"""The `adaplan` command: its subcommands are plugins.

A package (ours or a user's) adds one through the entry-point group ``adaplan.commands``: the name is the subcommand,
the object is a `Command`. So no package has to know those that build on it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points, version

from adaplan_envs.errors import AdaPlanError, nearest

GROUP = "adaplan.commands"


@dataclass(frozen=True, slots=True)
class Command:
    """One subcommand.

    Attributes:
        help: one line for ``adaplan --help``.
        configure: adds the arguments to a parser. Must not import anything heavy. An argument named ``overrides``
            with ``nargs="*"`` takes words after options, too.
        run: does the work and returns the exit code. Errors of this project become one line on stderr and exit code 2.
        description: what ``adaplan NAME --help`` says; default `help`.
    """

    help: str
    configure: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    description: str | None = None


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        self.exit(2, f"{self.prog}: {message}\n{self.format_usage()}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``adaplan ARGV...`` and return the exit code."""
    argv = list(sys.argv[1:] if argv is None else argv)
    plugins = {point.name: point for point in sorted(entry_points(group=GROUP), key=lambda point: point.name)}
    parser = _Parser(prog="adaplan", description="Text environments, agents, evaluation and training.")
    parser.add_argument("--version", action="version", version=f"adaplan {version('adaplan')}")
    name = next((word for word in argv if not word.startswith("-")), None)
    if name is not None and name not in plugins:
        parser.error(f"unknown command {name!r}: {nearest(name, plugins)}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    # Only the command that was asked for is loaded; `adaplan --help` loads them all.
    for wanted in [name] if name is not None else plugins:
        command: Command = plugins[wanted].load()
        sub = subparsers.add_parser(wanted, help=command.help, description=command.description or command.help)
        command.configure(sub)
        sub.set_defaults(run=command.run)
    args, rest = parser.parse_known_args(argv)
    if hasattr(args, "overrides") and not any(word.startswith("-") for word in rest):
        args.overrides, rest = [*args.overrides, *rest], []  # argparse fills a list only once: up to an option
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    try:
        return int(args.run(args))
    except AdaPlanError as error:
        print(f"adaplan {args.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\nadaplan {args.command}: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `adaplan envs | head`
        sys.stderr.close()
        return 0


if __name__ == "__main__":
    sys.exit(main())
