"""Images a second in training, beside a common loop with a data loader in the same process.

Ours includes images and augmentation on the device. Trainings side by side run in processes of
their own, on a GPU through the Multi-Process Service if it is installed.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from steepest.cli.arguments import add_former, add_shared
from steepest.cli.bench.measure import add_numbers, given, read_numbers, run_bench

if TYPE_CHECKING:
    from steepest.bench.training import Settings

NAME = "training"
HELP = "images a second in training, one run and several side by side"

_MODEL, _SMOKE_MODEL = "cifar-resnet18", "small-cnn"
_BATCH, _SMOKE_BATCH = 128, 4
_SIZE, _SMOKE_SIZE = 32, 8
_MOST_WORKERS = 8
_BATCHES = 50


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("--model", metavar="NAME", help=f"net to train (default: {_MODEL})")
    add_shared(parser, "--device")
    batch = parser.add_argument(
        "--batch-size", type=int, metavar="N", help=f"images in a step (default: {_BATCH})"
    )
    add_former(parser, "--batch", batch)
    parser.add_argument(
        "--size", type=int, metavar="PIXELS", help=f"side of an image (default: {_SIZE})"
    )
    parser.add_argument(
        "--precision",
        choices=("fp32", "bf16"),
        help="precision on both sides (default: fp32 on a CPU, bf16 on a GPU)",
    )
    parallel = parser.add_argument(
        "--parallel", default="1,2,4", metavar="A,B", help="trainings at a time (default: 1,2,4)"
    )
    add_former(parser, "--runs", parallel)
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        "--seconds", type=float, default=2.0, metavar="S", help="length of each timing (default: 2)"
    )
    length.add_argument("--steps", type=int, metavar="N", help="length of each timing in steps")
    parser.add_argument(
        "--rounds", type=int, metavar="N", help="timings, of which the best counts (default: 2)"
    )
    add_shared(parser, "--threads")
    workers = parser.add_argument(
        "--loader-workers",
        type=int,
        metavar="N",
        help=f"processes of the data loader (default: one per core, at most {_MOST_WORKERS})",
    )
    add_former(parser, "--workers", workers)
    parser.add_argument(
        "--smoke",
        action="store_true",
        help=f"tiny, on the CPU: {_SMOKE_MODEL}, batch {_SMOKE_BATCH}, 2 steps, 1 thread",
    )
    add_shared(parser, "--seed")
    add_numbers(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from steepest.bench.training import TrainingBench, training_table

    make = partial(TrainingBench, _settings(arguments))
    return run_bench(arguments, make, lambda result: training_table(result).text())


def _settings(arguments: argparse.Namespace) -> Settings:
    import torch

    from steepest.bench.training import Settings
    from steepest.bench.training_loops import Workload
    from steepest.core.devices import choose_device, usable_cores
    from steepest.models.base import MODELS

    smoke: bool = arguments.smoke
    device = choose_device("cpu" if smoke else arguments.device)
    model = arguments.model or (_SMOKE_MODEL if smoke else _MODEL)
    MODELS.get(model)
    batch = given(arguments.batch_size, _SMOKE_BATCH if smoke else _BATCH)
    workers = 0 if smoke else min(_MOST_WORKERS, usable_cores())
    load = Workload(
        model,
        batch,
        arguments.precision or ("bf16" if device.type == "cuda" else "fp32"),
        given(arguments.size, _SMOKE_SIZE if smoke else _SIZE),
        batch * (2 if smoke else _BATCHES),
        given(arguments.loader_workers, workers),
        arguments.seed,
    )
    return Settings(
        load,
        device,
        given(arguments.threads, 1 if smoke else torch.get_num_threads()),
        arguments.seconds,
        2 if smoke and arguments.steps is None else arguments.steps,
        read_numbers(arguments.parallel, "--parallel"),
        given(arguments.rounds, 1 if smoke else 2),
        arguments.command_line,
    )
