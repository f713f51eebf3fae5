"""Seconds and memory that every strategy takes to choose from pools that grow.

Samples are synthetic features under a linear head: the pass through a backbone is the same for
all, and not the point. Each trial runs in a process of its own. Where the straightforward way
writes out a matrix of all pairs or all gradient embeddings, it is measured beside ours until it
runs out of memory. So is scikit-activeml, where it is installed and has the strategy.
"""

from __future__ import annotations

import argparse
import math
from functools import partial
from typing import TYPE_CHECKING

from steepest.cli.arguments import add_device, add_seed, names_of
from steepest.cli.bench_run import add_numbers, add_threads, given, read_numbers, run_bench
from steepest.errors import InputError

if TYPE_CHECKING:
    from steepest.bench.strategies import Settings

NAME = "strategies"
HELP = "seconds and memory of choosing, as pools grow"

_POOLS, _SMOKE_POOLS = "10000,100000,1000000", "60,120"
_K, _SMOKE_K = 1000, 5
_LABELLED, _SMOKE_LABELLED = 5000, 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("--strategies", metavar="A,B", help="(default: all)")
    parser.add_argument("--pools", metavar="A,B", help=f"sizes (default: {_POOLS})")
    parser.add_argument("--k", type=int, metavar="N", help=f"chosen samples (default: {_K})")
    parser.add_argument(
        "--labelled", type=int, metavar="N", help=f"samples with a label (default: {_LABELLED})"
    )
    parser.add_argument(
        "--features", type=int, default=512, metavar="D", help="of a sample (default: 512)"
    )
    parser.add_argument("--classes", type=int, default=10, metavar="C", help="(default: 10)")
    parser.add_argument(
        "--limit", type=float, default=300.0, metavar="S", help="seconds of a trial (default: 300)"
    )
    add_device(parser)
    add_threads(parser)
    parser.add_argument("--smoke", action="store_true", help="tiny, on the CPU")
    add_seed(parser)
    add_numbers(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from steepest.bench.strategies import StrategiesBench, strategies_table

    make = partial(StrategiesBench, _settings(arguments))
    return run_bench(arguments, make, lambda result: strategies_table(result).text())


def _settings(arguments: argparse.Namespace) -> Settings:
    import torch

    from steepest.bench.strategies import Settings
    from steepest.core.devices import choose_device
    from steepest.strategies.base import STRATEGIES

    smoke: bool = arguments.smoke
    if not math.isfinite(arguments.limit) or arguments.limit <= 0:
        raise InputError(f"--limit {arguments.limit}: give a number of seconds above 0")
    text: str | None = arguments.strategies
    chosen = () if text is None else names_of(text, "--strategies")
    for name in chosen:
        STRATEGIES.get(name)
    return Settings(
        strategies=chosen,
        pools=read_numbers(arguments.pools or (_SMOKE_POOLS if smoke else _POOLS), "--pools"),
        device=choose_device("cpu" if smoke else arguments.device),
        threads=given(arguments.threads, 1 if smoke else torch.get_num_threads()),
        features=arguments.features,
        classes=arguments.classes,
        labelled=given(arguments.labelled, _SMOKE_LABELLED if smoke else _LABELLED),
        k=given(arguments.k, _SMOKE_K if smoke else _K),
        limit_seconds=arguments.limit,
        seed=arguments.seed,
        command=arguments.command_line,
    )
