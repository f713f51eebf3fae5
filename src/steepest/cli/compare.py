"""Compare strategies fairly: per seed the same initial set and weights, random always among them.

Complete runs are kept, so that the same command resumes, and more strategies or seeds add to it.
"""

from __future__ import annotations

import argparse
import shlex
import sys

from steepest.cli.arguments import (
    add_config,
    add_minutes,
    add_out,
    add_quiet,
    config_of,
    deadline_of,
)
from steepest.cli.outcome import show_outcome
from steepest.errors import InputError
from steepest.experiment import compare
from steepest.progress import show_progress

NAME = "compare"
HELP = "compare strategies, paired by seed, with statistics"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    add_config(parser)
    parser.add_argument(
        "--strategies",
        required=True,
        metavar="A,B,C",
        help="names, separated by commas; random is added",
    )
    parser.add_argument(
        "--seeds",
        default="5",
        metavar="N",
        help="how many seeds (0 to N − 1), or a list such as 3,4,7 (default: %(default)s)",
    )
    parser.add_argument(
        "--jobs", type=int, metavar="N", help="runs side by side; default: one per core"
    )
    parser.add_argument(
        "--no-report", dest="report", action="store_false", help="write no HTML report at the end"
    )
    add_out(parser)
    add_minutes(parser)
    add_quiet(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    strategies = [name.strip() for name in arguments.strategies.split(",") if name.strip()]
    compare(
        config_of(arguments),
        strategies,
        _seeds(arguments.seeds),
        arguments.out,
        progress=show_progress(enabled=not arguments.quiet),
        jobs=arguments.jobs,
        deadline=deadline_of(arguments),
        command=shlex.join(["steepest", *sys.argv[1:]]),
    )
    show_outcome(arguments.out, report=arguments.report)
    return 0


def _seeds(text: str) -> list[int]:
    try:
        if "," in text:
            return [int(part) for part in text.split(",") if part.strip()]
        return list(range(int(text)))
    except ValueError as error:
        raise InputError(f"--seeds {text!r}: give a number, or a list such as 3,4,7") from error
