"""Seconds and memory that every strategy takes to choose from pools that grow.

Samples are synthetic features under a linear head: the pass through a backbone is the same for
all, and not the point. Each trial runs in a separate process. Where the straightforward way
writes out a matrix of all pairs or all gradient embeddings, it is measured beside ours until it
runs out of memory. So is scikit-activeml, where it is installed and has the strategy.
"""

from __future__ import annotations

import argparse
import math
from functools import partial
from typing import TYPE_CHECKING

from steepest.cli.arguments import add_former, add_shared, names_of
from steepest.cli.bench.measure import add_numbers, given, read_numbers, run_bench
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
    parser.add_argument("--strategies", metavar="A,B", help="strategies (default: all)")
    number = {"type": int, "metavar": "N"}
    for name, former, how, text in (
        ("--pool-sizes", "--pools", {"metavar": "A,B"}, f"sizes of the pools (default: {_POOLS})"),
        ("-k", "--k", {"type": int, "metavar": "K"}, f"samples to choose (default: {_K})"),
        ("--train-size", "--labelled", number, f"samples with a label (default: {_LABELLED})"),
        ("--feature-size", "--features", {**number, "default": 512}, "features (default: 512)"),
        ("--num-classes", "--classes", {**number, "default": 10}, "classes (default: 10)"),
    ):
        add_former(parser, former, parser.add_argument(name, help=text, **how))
    parser.add_argument(
        "--limit", type=float, default=300.0, metavar="S", help="seconds per trial (default: 300)"
    )
    add_shared(parser, "--device", "--threads")
    parser.add_argument("--smoke", action="store_true", help="tiny, on the CPU")
    add_shared(parser, "--seed")
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
    pools = arguments.pool_sizes or (_SMOKE_POOLS if smoke else _POOLS)
    return Settings(
        strategies=chosen,
        pools=read_numbers(pools, "--pool-sizes"),
        device=choose_device("cpu" if smoke else arguments.device),
        threads=given(arguments.threads, 1 if smoke else torch.get_num_threads()),
        features=arguments.feature_size,
        classes=arguments.num_classes,
        labelled=given(arguments.train_size, _SMOKE_LABELLED if smoke else _LABELLED),
        k=given(arguments.k, _SMOKE_K if smoke else _K),
        limit_seconds=arguments.limit,
        seed=arguments.seed,
        command=arguments.command_line,
    )
