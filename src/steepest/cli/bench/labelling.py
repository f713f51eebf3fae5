"""A scripted annotator at the labelling page: accuracy by labels, and seconds of the page's work.

It labels photographs of the ten largest classes of Caltech-101 over HTTP as a browser would,
without Faces_easy, which has the photographs of Faces. The models that the page exports are tested
on images that are not in the folder. The data is read from the shards in the data folder.
"""

from __future__ import annotations

import argparse

from steepest.cli.arguments import add_former, seeds_of
from steepest.cli.bench.measure import add_numbers, given, run_bench

NAME = "labelling"
HELP = "accuracy by labels given on the labelling page, and seconds of its work"

_LABELS = 50


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument(
        "--seeds",
        default="5",
        metavar="N",
        help="number of seeds (0 to N − 1), or a list such as 3,4,7 (default: 5)",
    )
    parser.add_argument(
        "--strategies",
        default="default,random",
        metavar="A,B",
        help="strategies; default is the page's own (default: default,random)",
    )
    answers = parser.add_argument(
        "--answers", type=int, metavar="N", help=f"answers per sitting (default: {_LABELS})"
    )
    add_former(parser, "--labels", answers)
    add_numbers(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from steepest.bench.labelling import LabellingBench

    seeds = tuple(seeds_of(arguments.seeds))
    strategies = arguments.strategies.split(",")
    command: str = arguments.command_line
    return run_bench(
        arguments,
        lambda progress: LabellingBench(
            seeds, strategies, given(arguments.answers, _LABELS), progress, command
        ),
        lambda result: result.text(),
    )
