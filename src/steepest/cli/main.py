"""The command line: one thin file per sub-command, errors in one line."""

from __future__ import annotations

import argparse
import io
import sys
import warnings
from collections.abc import Sequence
from typing import TextIO

from steepest.cli import (
    bench,
    compare,
    data,
    demo,
    ingest,
    label,
    label_studio,
    report,
    reproduce,
    run,
    select,
)
from steepest.cli import strategies as strategies_command
from steepest.errors import SteepestError
from steepest.version import __version__

_COMMANDS = (
    demo,
    select,
    ingest,
    label,
    label_studio,
    run,
    compare,
    report,
    reproduce,
    strategies_command,
    data,
    bench,
)
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        0 if it went well, 2 for bad input, 130 after Ctrl-C.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show a sign shows a question mark instead.
            stream.reconfigure(errors="replace")
    arguments = _parser().parse_args(argv)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            code: int = arguments.execute(arguments)
    except SteepestError as error:
        print(f"steepest: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("steepest: stopped; run the same command again to go on", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except OSError as error:
        print(f"steepest: error: {error}", file=sys.stderr)
        return 2
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="steepest",
        description="Active learning by gradient norm: pick the samples that would move your "
        "model most, close the loop with whoever labels them, and measure whether it helped.",
    )
    parser.add_argument("--version", action="version", version=f"steepest {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in _COMMANDS:
        sub = commands.add_parser(command.NAME, help=command.HELP, description=command.__doc__)
        command.add_arguments(sub)
        sub.set_defaults(execute=command.execute)
    return parser


def _show_warning(
    message: Warning | str,
    category: type[Warning],  # noqa: ARG001
    filename: str,  # noqa: ARG001
    lineno: int,  # noqa: ARG001
    file: TextIO | None = None,  # noqa: ARG001
    line: str | None = None,  # noqa: ARG001
) -> None:
    """Print a warning as one line for a person, without the place in the code."""
    print(f"steepest: warning: {' '.join(str(message).split())}", file=sys.stderr)
