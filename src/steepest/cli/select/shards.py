"""Several processes or machines for one pool: actors on Ray, or shards by hand."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import nn

from steepest.cli.arguments import add_flags, add_shared
from steepest.core.wording import counted
from steepest.errors import InputError
from steepest.modules.fingerprint import fingerprint
from steepest.selecting import Scores, Selection, score
from steepest.selecting.candidates import find_candidates
from steepest.selecting.options import SelectionOptions
from steepest.selecting.provenance import pool_fingerprint
from steepest.selecting.ray_engine import Engine, OnRay
from steepest.selecting.samples import PoolLike, as_samples
from steepest.selecting.scores import check_suffix
from steepest.selecting.shards import Shard
from steepest.strategies import Strategy


def add_ray_arguments(parser: argparse._ActionsContainer) -> None:
    """Add the arguments of passes on Ray."""
    add_shared(parser, "--engine", "--address")
    parser.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="number of Ray processes (default: as many as there is room for)",
    )
    parser.add_argument(
        "--parts",
        type=Path,
        metavar="DIR",
        help="folder for finished parts of a pass on Ray (default: beside --out, until the picks "
        "are written)",
    )


@contextmanager
def engine_of(arguments: argparse.Namespace) -> Iterator[Engine]:
    """Yield where passes over the model run.

    Raises:
        InputError: If an option of Ray is given without it, or Ray is not installed.
    """
    if arguments.engine == "here":
        for name in ("address", "workers", "parts"):
            if getattr(arguments, name) is not None:
                raise InputError(f"--{name} is for --engine ray: give both, or leave it out")
        yield "here"
        return
    if arguments.shard is not None or arguments.scores is not None:
        raise InputError("--engine ray divides the pool by itself: leave out --shard and --scores")
    arguments.goes_on = True
    beside = arguments.out or arguments.run
    parts = arguments.parts or beside.with_name(f"{beside.name}.parts")
    with OnRay(arguments.address, workers=arguments.workers, parts=parts) as engine:
        yield engine
    if arguments.parts is None:
        shutil.rmtree(parts, ignore_errors=True)


def add_shard_arguments(parser: argparse._ActionsContainer) -> None:
    """Add the arguments of scoring in parts."""
    add_flags(parser, SelectionOptions, ["shard"])
    parser.add_argument(
        "--scores",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="choose by the scores of all N shards, with the other options as they were",
    )


def check_shard_arguments(arguments: argparse.Namespace) -> bool:
    """Return whether one shard is to be scored.

    Raises:
        InputError: If something is requested that does not go with that.
    """
    if arguments.shard is None:
        return False
    if arguments.scores is not None:
        raise InputError("--shard scores a part and --scores chooses from all: leave out one")
    if arguments.export is not None:
        raise InputError("--format is for picks, and --shard makes none: give it with --scores")
    Shard.parse(arguments.shard)
    check_suffix(arguments.out)
    return True


def score_shard(
    arguments: argparse.Namespace,
    model: nn.Module,
    pool: PoolLike,
    strategy: Strategy,
    how: Mapping[str, Any],
) -> None:
    """Score one part of the pool, and keep the scores."""
    scores = score(model, pool, strategy, shard=arguments.shard, **how)
    scores.save(arguments.out)
    said = f"{counted(len(scores), 'sample')} of shard {scores.shard} scored by {scores.strategy}"
    print(f"{said}: {arguments.out}")


def choose_scored(
    files: Iterable[Path],
    model: nn.Module,
    pool: PoolLike,
    k: int,
    strategy: Strategy,
    how: Mapping[str, Any],
) -> Selection:
    """Choose k samples by scores that were made before.

    Raises:
        InputError: If the scores are not complete, or not those that would be made now.
    """
    merged = Scores.merge(Scores.load(path) for path in files)
    now = {
        "strategy": strategy.name,
        "options": strategy.options(),
        "seed": how["seed"],
        "model": fingerprint(model),
    }
    for name, value in now.items():
        if getattr(merged, name) != value:
            raise InputError(
                f"--scores were made with {name} {getattr(merged, name)!r}, which is {value!r} "
                "now: score the shards again, or choose as they were scored"
            )
    samples = as_samples(pool)
    scored = merged.conditions
    if scored is not None and scored.pool != pool_fingerprint(samples):
        raise InputError(
            "--scores are of another pool, or of one that was read in another way (--size, "
            "--mean, --std): score the shards again, or choose as they were scored"
        )
    wanted = {samples.ids[p] for p in find_candidates(samples, SelectionOptions(**how)).positions}
    if differing := wanted ^ set(merged.ids):
        raise InputError(
            f"--scores are of other samples than can be chosen now "
            f"({counted(len(differing), 'sample differs', 'samples differ')}, such as "
            f"{next(iter(differing))!r}): score the shards again"
        )
    return merged.select(k, how["class_names"])
