"""Learn real handwritten digits with three strategies and three seeds, then write a report."""

from __future__ import annotations

import argparse
import sys

from steepest.cli.arguments import add_out, add_quiet
from steepest.cli.outcome import show_outcome
from steepest.core.progress import show_progress
from steepest.experiment import compare, load_config

STRATEGIES = ("entropy-gradnorm", "margin", "random")
SEEDS = (0, 1, 2)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    add_out(parser, default="steepest-demo")
    add_quiet(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    config = load_config("digits")
    loop = config.loop
    last = loop.initial + loop.k * (loop.cycles - 1)
    print(
        f"Learning {config.name} from {loop.initial} to {last} labels, {loop.k} at a time: "
        f"{', '.join(STRATEGIES)}; {len(SEEDS)} seeds.",
        file=sys.stderr,
    )
    compare(
        config,
        STRATEGIES,
        SEEDS,
        arguments.out,
        progress=show_progress(enabled=not arguments.quiet),
        command="steepest demo",
    )
    show_outcome(arguments.out)
    print(
        "Next: `steepest label DIR --classes A,B` labels images of your own; `steepest select "
        "--help` and `steepest compare --help` show how to begin with a model or data of yours."
    )
    return 0
