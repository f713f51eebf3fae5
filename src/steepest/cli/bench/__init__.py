"""Measure performance as ratios side by side in one process, so that any machine can tell."""

from __future__ import annotations

import argparse

from steepest.cli.bench import (
    cycle,
    features,
    gradnorm,
    labelling,
    precision,
    scale,
    strategies,
    training,
)

EXAMPLES = ("steepest bench gradnorm --out gradnorm.json",)

_BENCHES = (gradnorm, precision, training, strategies, cycle, features, scale, labelling)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the measurements, one sub-command each."""
    benches = parser.add_subparsers(title="measurements", metavar="WHAT", required=True)
    for bench in _BENCHES:
        sub = benches.add_parser(bench.NAME, help=bench.HELP, description=bench.__doc__)
        bench.add_arguments(sub)
        sub.set_defaults(execute=bench.execute)
