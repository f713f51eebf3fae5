"""Cost of a selection on Ray relative to the same selection in one process.

The pool is a mapped file of random rows and the model is small, so that what Ray adds shows. Each
worker has one thread, as the one process has. Picks are compared.
"""

from __future__ import annotations

import argparse

from steepest.cli.arguments import add_shared, names_of
from steepest.cli.bench.measure import add_numbers, run_bench

NAME = "scale"
HELP = "seconds and processor time on Ray beside one process"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument(
        "--strategies",
        default="margin,entropy-gradnorm,core-set",
        metavar="A,B",
        help="(default: %(default)s)",
    )
    for name, default, text in (
        ("rows", 1_000_000, "samples"),
        ("width", 128, "numbers of a sample"),
        ("k", 1000, "chosen samples"),
        ("workers", 2, "processes on Ray"),
        ("rounds", 3, "selections of each kind"),
    ):
        parser.add_argument(
            f"--{name}", type=int, default=default, metavar="N", help=f"{text} (default: {default})"
        )
    add_shared(parser, "--seed")
    add_numbers(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from steepest.bench.scale import ScaleBench
    from steepest.strategies.base import STRATEGIES

    names = names_of(arguments.strategies, "--strategies")
    for name in names:
        STRATEGIES.get(name)
    return run_bench(
        arguments,
        lambda progress: ScaleBench(
            names,
            arguments.rows,
            arguments.width,
            arguments.k,
            arguments.workers,
            arguments.rounds,
            arguments.seed,
            progress,
            arguments.command_line,
        ),
        lambda result: result.text(),
    )
