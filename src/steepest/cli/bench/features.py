"""Images per second of the feature cache, when it is empty and when it is full.

A plain loop over a DataLoader with the same net is measured beside it, in turns: one worker
process for each core, and nothing kept.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from steepest.cli.arguments import add_shared
from steepest.cli.bench.measure import add_numbers, run_bench

NAME = "features"
HELP = "images per second of the feature cache"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument(
        "--backbone", default="efficientnet-lite0", metavar="NAME", help="(default: %(default)s)"
    )
    parser.add_argument(
        "--folder", type=Path, metavar="DIR", help="images (default: synthetic JPEG files)"
    )
    parser.add_argument(
        "--count", type=int, default=2000, metavar="N", help="JPEG files to make (default: 2000)"
    )
    parser.add_argument(
        "--rounds", type=int, default=3, metavar="N", help="passes of each (default: 3)"
    )
    add_shared(parser, "--device", "--seed")
    add_numbers(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from steepest.bench.features import FeaturesBench
    from steepest.core.devices import choose_device

    return run_bench(
        arguments,
        lambda progress: FeaturesBench(
            arguments.backbone,
            arguments.folder,
            arguments.count,
            arguments.rounds,
            choose_device(arguments.device),
            arguments.seed,
            progress,
            arguments.command_line,
        ),
        lambda result: result.text(),
    )
