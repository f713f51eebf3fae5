"""Write the report of a run or a comparison: one HTML page, figures, and the numbers as CSV."""

from __future__ import annotations

import argparse
from pathlib import Path

from steepest.cli.arguments import add_shared

EXAMPLES = ("steepest report comparisons/digits",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument(
        "folder", type=Path, metavar="DIR", help="folder of run or compare, or archive of pack"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="folder of the report (default: the same folder)"
    )
    parser.add_argument(
        "--baseline",
        metavar="NAME",
        help="strategy to compare the others with (default: random)",
    )
    add_shared(parser, "--metric")


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from steepest.experiment.report import write_report

    files = write_report(
        arguments.folder, arguments.out, baseline=arguments.baseline, metric=arguments.metric
    )
    print(f"Report: {files.html}")
    print(f"Curves: {files.csv}")
    return 0
