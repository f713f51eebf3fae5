"""Time, memory and error of exact per-sample gradient norms beside a plain pass and peers.

All contenders are measured in turns within one process, in the same precision and layout.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from steepest.cli.arguments import add_former, add_shared, names_of
from steepest.cli.bench.measure import add_numbers, given, run_bench

if TYPE_CHECKING:
    from steepest.bench.gradnorm import Settings

NAME = "gradnorm"
HELP = "per-sample gradient norms beside a plain forward and backward pass"


@dataclass(frozen=True)
class _Size:
    """Default sizes of the measurement."""

    models: tuple[str, ...] | None = None
    batch: int | None = None
    rounds: int = 5


_SMOKE = _Size(("cifar-resnet18",), batch=2, rounds=1)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    from steepest.bench.contenders.base import COMPILED, STANDARD
    from steepest.bench.workloads import WORKLOADS, names

    more = [name for name in names() if name not in WORKLOADS]
    parser.add_argument(
        "--models",
        metavar="A,B",
        help=f"models to measure (default: {', '.join(WORKLOADS)}; also {', '.join(more)}; "
        "'library' for one small model of each kind)",
    )
    parser.add_argument(
        "--contenders",
        metavar="A,B",
        help=f"implementations (default: {', '.join(STANDARD)}; plain is always measured)",
    )
    add_shared(parser, "--device")
    batch = parser.add_argument(
        "--batch-size", type=int, metavar="N", help="samples at a time (default: each model's own)"
    )
    add_former(parser, "--batch", batch)
    add_shared(parser, "--threads")
    parser.add_argument(
        "--rounds",
        type=int,
        metavar="N",
        help=f"timings, of which the best counts (default: {_Size.rounds})",
    )
    parser.add_argument(
        "--precision",
        choices=("fp32", "tf32", "bf16"),
        help="precision on all sides (default: fp32 on a CPU, tf32 on a GPU); where bf16 crashes a "
        "CPU by an illegal instruction, set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16",
    )
    parser.add_argument(
        "--channels-last", action="store_true", help="use the channels-last layout on all sides"
    )
    parser.add_argument(
        "--compiled", action="store_true", help=f"measure {' and '.join(COMPILED)} as well"
    )
    parser.add_argument(
        "--growth",
        action="store_true",
        help="also measure how time grows",
    )
    parser.add_argument(
        "--smoke",
        action="store_true",
        help=f"tiny: {', '.join(_SMOKE.models or ())}, batch {_SMOKE.batch}, {_SMOKE.rounds} round",
    )
    add_shared(parser, "--seed")
    add_numbers(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from steepest.bench.gradnorm import GradnormBench
    from steepest.bench.gradnorm_table import describe_gradnorm

    return run_bench(arguments, partial(GradnormBench, _settings(arguments)), describe_gradnorm)


def _settings(arguments: argparse.Namespace) -> Settings:
    import torch

    from steepest.bench.contenders.base import COMPILED, STANDARD
    from steepest.bench.gradnorm import Settings
    from steepest.bench.workloads import LIBRARY, WORKLOADS
    from steepest.core.devices import choose_device

    smoke = _SMOKE if arguments.smoke else _Size()
    device = choose_device(arguments.device)
    contenders = _names("--contenders", arguments.contenders, STANDARD)
    if arguments.compiled:
        contenders = tuple(dict.fromkeys((*contenders, *COMPILED)))
    models = _names("--models", arguments.models, smoke.models or WORKLOADS)
    return Settings(
        LIBRARY if models == ("library",) else models,
        contenders,
        device,
        arguments.precision or ("tf32" if device.type == "cuda" else "fp32"),
        given(arguments.threads, torch.get_num_threads()),
        given(arguments.rounds, smoke.rounds),
        smoke.batch if arguments.batch_size is None else arguments.batch_size,
        channels_last=arguments.channels_last,
        growth=arguments.growth,
        seed=arguments.seed,
        command=arguments.command_line,
    )


def _names(option: str, text: str | None, default: tuple[str, ...]) -> tuple[str, ...]:
    return default if text is None else names_of(text, option)
