"""Effects of tf32 and bf16 on the ranking of a pool by a trained model.

The model of a preset is trained on a random labelled set; unlabelled samples are then scored by
their gradient norm in each precision, and compared with strict fp32 and, for a few, with fp64.
On a CPU, bf16 is scored in a separate process, as it ends some processors' work by an illegal
instruction; then ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 is tried.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from steepest.cli.arguments import add_former, add_shared
from steepest.cli.bench.measure import add_numbers, run_bench

if TYPE_CHECKING:
    from steepest.bench.precision import Settings

NAME = "precision"
HELP = "what tf32 and bf16 do to the ranking by a trained model"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    from steepest.experiment.config import presets

    parser.add_argument(
        "preset",
        nargs="?",
        metavar="PRESET",
        help=f"{', '.join(presets())}, or a TOML file (default: digits; on a GPU cifar10, if "
        "STEEPEST_DATA names a folder)",
    )
    parser.add_argument(
        "--epochs", type=int, metavar="N", help="epochs of training (default: the preset's)"
    )
    labels = parser.add_argument(
        "--train-size", type=int, metavar="N", help="samples to train on (default: the preset's)"
    )
    add_former(parser, "--labels", labels)
    pool = parser.add_argument(
        "--pool-size",
        type=int,
        metavar="N",
        help="samples to score (default: the rest, up to 25000)",
    )
    add_former(parser, "--pool", pool)
    add_shared(parser, "--device")
    parser.add_argument(
        "--top",
        type=float,
        default=0.1,
        metavar="SHARE",
        help="share of the pool that counts as chosen (default: 0.1)",
    )
    add_shared(parser, "--seed")
    add_numbers(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from steepest.bench.precision import PrecisionBench, precision_table

    make = partial(PrecisionBench, _settings(arguments))
    return run_bench(arguments, make, lambda result: precision_table(result).text())


def _settings(arguments: argparse.Namespace) -> Settings:
    from steepest.bench.precision import LARGEST_POOL, Settings
    from steepest.core.devices import choose_device
    from steepest.data.base import data_root

    device = choose_device(arguments.device)
    with_data = device.type == "cuda" and data_root() is not None
    return Settings(
        arguments.preset or ("cifar10" if with_data else "digits"),
        device,
        arguments.epochs,
        arguments.train_size,
        LARGEST_POOL if arguments.pool_size is None else arguments.pool_size,
        arguments.top,
        arguments.seed,
        arguments.command_line,
    )
