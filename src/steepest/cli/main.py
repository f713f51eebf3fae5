"""The command line: one thin file per sub-command, errors in one line."""

from __future__ import annotations

import argparse
import io
import os
import shlex
import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from importlib import import_module
from types import MappingProxyType
from typing import TextIO

from steepest.cli.parser import Parser
from steepest.cli.terminal import INTERRUPTED, ending_at_once, on_one_line
from steepest.errors import InputError, SteepestError
from steepest.version import __version__

COMMANDS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "choose and label": {
            "demo": "a first useful result in a minute, from data inside the package",
            "select": "choose what to label next",
            "label": "label a folder of images on a local page",
            "ingest": "import labels from a file or folder",
            "label-studio": "label with a Label Studio server",
            "project": "export a labelling project or its labels, or import a project",
        },
        "compare and report": {
            "run": "run one experiment, or resume it",
            "compare": "compare strategies, paired by seed, with statistics",
            "report": "write the report of a run or comparison",
            "pack": "pack the records of a run or comparison into one small file",
            "reproduce": "reproduce the paper's tables and figures",
            "bench": "measure speed, memory and precision beside alternatives",
        },
        "look up": {
            "strategies": "list the strategies, or show one with its options",
            "data": "list, download and check data sets",
            "completion": "print a script that completes commands in a shell",
        },
    }
)
"""Names with their help, in groups: not in their files, which are slow to import."""

SUMMARIES: Mapping[str, str] = MappingProxyType(
    {name: summary for group in COMMANDS.values() for name, summary in group.items()}
)
"""Names with their help."""

_WITHOUT_MEMORY = ("select", "strategies", "report", "pack", "bench", "completion")
"""Commands that save nothing until they are finished."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        0 if it went well, 2 for bad input, 130 after Ctrl-C.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, _open_nowhere())
        elif isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show a sign shows a question mark instead.
            stream.reconfigure(errors="replace")
    words = sys.argv[1:] if argv is None else argv
    arguments = argparse.Namespace()
    try:
        # Not within a program of someone else's, which would be ended too.
        with ending_at_once() if argv is None else nullcontext():
            parser, _ = make_parser(_chosen(words))
        if not words:
            parser.print_help(sys.stderr)
            return 2
        arguments, strange = parser.parse_known_args(words)
        if strange:
            # Of itself the parser would show how to call the program, and not the command.
            known = f"`steepest {_chosen(words)} --help` shows what there is"
            raise InputError(f"unrecognized arguments: {shlex.join(strange)}; {known}")
        # What was given, and not the words of this process: records tell how to make them again.
        arguments.command_line = shlex.join(["steepest", *words])
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            code: int = arguments.execute(arguments)
    except SteepestError as error:
        print(f"steepest: error: {on_one_line(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        goes_on = getattr(arguments, "goes_on", _chosen(words) not in _WITHOUT_MEMORY)
        goal = "go on" if goes_on else "begin again"
        print(f"steepest: stopped; run the same command again to {goal}", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except OSError as error:
        print(f"steepest: error: {on_one_line(str(error))}", file=sys.stderr)
        return 2
    return code


def _open_nowhere() -> TextIO:
    """Return a stream in place of one that is closed.

    Without it the next file to be opened would get its number, and what libraries write there.
    """
    stream = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - it stays to the end
    os.set_inheritable(stream.fileno(), True)
    return stream


def _chosen(words: Sequence[str]) -> str:
    """Return the command that is named: no option before it takes a value."""
    return next((word for word in words if not word.startswith("-")), "")


def make_parser(chosen: str | None = None) -> tuple[Parser, dict[str, Parser]]:
    """Return the parser of the command line, and the parser of each command by name.

    Args:
        chosen: The one command whose file is imported for its arguments; by default all are.
    """
    width = max(map(len, SUMMARIES))
    groups = [
        "\n".join([f"{title}:", *(f"  {name:{width}}  {text}" for name, text in group.items())])
        for title, group in COMMANDS.items()
    ]
    parser = Parser(
        prog="steepest",
        description="Active learning by gradient norm: choose the samples that would move your\n"
        "model most, label them, retrain, and measure whether it helped.",
        epilog="\n\n".join([*groups, "`steepest COMMAND --help` ends with examples to copy."]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"steepest {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, help=argparse.SUPPRESS)
    parsers = {}
    for name in SUMMARIES:
        parsers[name] = sub = commands.add_parser(name)
        if chosen in (None, name):
            command = import_module(f"steepest.cli.{name.replace('-', '_')}")
            sub.description = command.__doc__
            command.add_arguments(sub)
            sub.show_examples(command.EXAMPLES)
            if hasattr(command, "execute"):  # others have a command for each action
                sub.set_defaults(execute=command.execute)
    return parser, parsers


def _show_warning(
    message: Warning | str,
    category: type[Warning],  # noqa: ARG001
    filename: str,  # noqa: ARG001
    lineno: int,  # noqa: ARG001
    file: TextIO | None = None,  # noqa: ARG001
    line: str | None = None,  # noqa: ARG001
) -> None:
    """Print a warning as one line for a person, without the place in the code."""
    print(f"steepest: warning: {on_one_line(str(message))}", file=sys.stderr)
