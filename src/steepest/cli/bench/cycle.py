"""Costs of every strategy in the first cycle of an experiment, after the same training run.

The model is trained once, and once more for each strategy that changes its training. Auxiliary
training and choosing are timed separately. Runs are kept, so that the same command resumes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from steepest.cli.arguments import add_config, config_of
from steepest.cli.bench.measure import add_numbers, run_bench

NAME = "cycle"
HELP = "seconds of training and choosing of every strategy in one cycle"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    add_config(parser)
    parser.add_argument(
        "--strategies",
        metavar="A,B",
        help="names, or LABEL=NAME(OPTION=VALUE,...), separated by commas (default: all)",
    )
    parser.add_argument(
        "--runs", type=Path, required=True, metavar="DIR", help="folder for the runs"
    )
    add_numbers(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from steepest.bench.cycle import CycleBench, cycle_table
    from steepest.experiment.variants import parse_variants
    from steepest.strategies import names

    config = config_of(arguments)
    variants = parse_variants([arguments.strategies] if arguments.strategies else names())
    command: str = arguments.command_line
    return run_bench(
        arguments,
        lambda progress: CycleBench(config, variants, arguments.runs, progress, command),
        lambda result: cycle_table(result).text(),
    )
