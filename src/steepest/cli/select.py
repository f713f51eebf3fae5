"""Choose what to label next out of a folder of images, or an array, with your own model."""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

from torch import nn

from steepest.cli.arguments import add_device, add_quiet, add_seed, pairs
from steepest.cli.select_loop import (
    choose_round,
    class_names,
    loop_settings,
    say_chosen,
    write_out,
)
from steepest.cli.select_support import add_support_arguments, read_labelled, read_support
from steepest.errors import InputError, SteepestWarning
from steepest.files import check_writable
from steepest.labelling.exchange.export import SUFFIXES, check_export
from steepest.labelling.exchange.rounds import Round
from steepest.pool import Pool
from steepest.scoring import Selection, select
from steepest.scoring.samples import PoolLike
from steepest.tasks import Task

NAME = "select"
HELP = "choose what to label next"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument(
        "--model",
        required=True,
        metavar="NAME",
        help="package.module:factory (a function that returns your model, or the model itself), or "
        "a built-in model",
    )
    parser.add_argument(
        "--classes", type=int, metavar="C", help="number of classes, if the factory takes it"
    )
    parser.add_argument(
        "--model-option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option that the model was built with, such as stem=s1; may be repeated",
    )
    parser.add_argument(
        "--task",
        metavar="NAME",
        help="what the model was trained for: classification (default), segmentation or "
        "multi-label; the last two need --classes",
    )
    parser.add_argument(
        "--weights",
        type=Path,
        metavar="FILE",
        help=".safetensors, .pt, .pth, .pth.tar or .ckpt; may be left out if your own model "
        "has its weights",
    )
    parser.add_argument(
        "--pool", type=Path, required=True, metavar="PATH", help="folder of images, or .npy array"
    )
    parser.add_argument(
        "-k",
        type=int,
        required=True,
        metavar="K",
        help="how many samples to choose; with --run, those that still wait for a label count",
    )
    parser.add_argument(
        "--strategy",
        default="entropy-gradnorm",
        metavar="NAME",
        help="see `steepest strategies`, or package.module:Class (default: %(default)s)",
    )
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of the strategy, such as norm=tensor-sum; may be repeated",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="picks.csv or picks.json, or what --export says; with --run it may be left out",
    )
    parser.add_argument(
        "--export",
        choices=tuple(SUFFIXES),
        help="write --out for the people who label: a table or lines to fill in, or tasks",
    )
    parser.add_argument(
        "--run",
        type=Path,
        metavar="DIR",
        help="the folder of a labelling loop, made if it is not there: what was labelled or "
        "skipped is left out, what was asked for and still waits is written again first, and the "
        "rest up to K is chosen; -k 0 writes what waits alone",
    )
    parser.add_argument(
        "--class-names",
        metavar="NAMES",
        help="the classes of a loop, or of --labelled, in the model's order: cat,dog or @FILE with "
        "one per line",
    )
    parser.add_argument(
        "--more",
        action="store_true",
        help="with --run: choose K new samples, whatever waits, and write those alone",
    )
    add_support_arguments(parser)
    parser.add_argument(
        "--subset", type=int, metavar="N", help="score a random subset of this size only"
    )
    parser.add_argument(
        "--size", type=int, metavar="PIXELS", help="resize images to this many pixels square"
    )
    parser.add_argument(
        "--channels", type=int, choices=(1, 3), default=3, help="grey, or colour (default)"
    )
    parser.add_argument(
        "--mean",
        type=float,
        nargs="+",
        metavar="M",
        help="what to subtract from images of a folder, on the 0..1 scale: one number, or one per "
        "channel (default: images are scaled to 0..1 only, with a warning)",
    )
    parser.add_argument(
        "--std", type=float, nargs="+", metavar="S", help="what to divide by then, likewise"
    )
    add_seed(parser)
    parser.add_argument(
        "--batch-size", type=int, metavar="N", help="samples at once (default: auto)"
    )
    add_device(parser)
    add_quiet(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from steepest.devices import choose_device
    from steepest.models.weights import load_weights

    _check_out(arguments)
    _check_weights(arguments)
    settings = loop_settings(arguments)
    names = class_names(arguments, settings)
    pool = _open_pool(arguments)
    device = choose_device(arguments.device)

    def load(weights: Path | None) -> nn.Module:
        made = _make_model(arguments)
        if weights is not None:
            load_weights(made, weights)
        return made.to(device)

    model = load(arguments.weights)
    left_out, labels = read_labelled(arguments.labelled, getattr(pool, "ids", None), names)

    def choose(loop: Pool | None, k: int) -> Selection:
        return select(
            model,
            pool,
            k,
            arguments.strategy,
            options=pairs(arguments.option),
            labelled=left_out if loop is None else {*loop.taken(), *(left_out or ())},
            subset=arguments.subset,
            seed=arguments.seed,
            task=_make_task(arguments),
            support=read_support(arguments, labels, load, loop),
            batch_size="auto" if arguments.batch_size is None else arguments.batch_size,
            progress=not arguments.quiet,
        )

    if settings is not None:
        picks = choose_round(arguments, settings, model, pool, choose)
    else:
        picks = choose(None, arguments.k)
        write_out(arguments, [(0, Round(picks))])
        say_chosen(arguments, picks)
    if picks.regime is not None:
        correlation = picks.regime.rank_correlation
        shown = "n/a" if correlation is None else f"{correlation:+.2f}"
        print(
            f"mean entropy {picks.regime.entropy_ratio:.0%} of its maximum; "
            f"rank correlation of score and entropy {shown}"
        )
    return 0


def _check_out(arguments: argparse.Namespace) -> None:
    out, kind = arguments.out, arguments.export
    if out is None:
        if arguments.run is None or kind is not None:
            raise InputError("say where the picks go to, by --out FILE")
        return
    if kind is not None:
        check_export(kind, out)
    elif out.suffix not in (".csv", ".json"):
        raise InputError(f"--out {out}: picks are saved as .csv or .json")
    check_writable(out)


def _check_weights(arguments: argparse.Namespace) -> None:
    if arguments.weights is None and ":" not in arguments.model:
        raise InputError(
            f"--model {arguments.model}: a built-in model needs the --weights of your training; "
            "fresh ones know nothing"
        )


def _make_model(arguments: argparse.Namespace) -> nn.Module:
    from steepest.models import build
    from steepest.models.factory import call_factory, find_made

    options, channels = pairs(arguments.model_option), arguments.channels
    made = find_made(arguments.model) if ":" in arguments.model else None
    if made is not None:
        if options:
            raise InputError(
                f"--model {arguments.model} is a model that is made already: it takes no "
                "--model-option"
            )
        return made
    if arguments.classes is not None:
        return build(arguments.model, arguments.classes, channels, arguments.seed, options)
    if ":" not in arguments.model:
        raise InputError(f"--model {arguments.model}: a built-in model needs --classes")
    return call_factory(arguments.model, {"channels": channels}, options)


def _make_task(arguments: argparse.Namespace) -> Task | None:
    if arguments.task is None:
        return None
    from steepest.tables import from_table
    from steepest.tasks import TASKS

    kind = TASKS.get(arguments.task)
    if arguments.classes is None:
        raise InputError(f"--task {arguments.task}: say how many classes there are by --classes")
    return from_table(kind, {"classes": arguments.classes}, f"task {arguments.task!r}")


def _open_pool(arguments: argparse.Namespace) -> PoolLike:
    if arguments.pool.suffix == ".npy":
        import numpy as np

        for name in ("size", "mean", "std"):
            if getattr(arguments, name) is not None:
                raise InputError(f"--{name} is for folders of images; an array is taken as it is")
        try:
            # Copy on write: the file stays as it is, and torch is content.
            return np.load(arguments.pool, mmap_mode="c", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise InputError(f"{arguments.pool} cannot be read as an array ({error})") from error
    if arguments.pool.is_file():
        raise InputError(
            f"--pool {arguments.pool} is a file: give a folder of images, or one array in a .npy "
            "file"
        )
    return _open_folder(arguments)


def _open_folder(arguments: argparse.Namespace) -> PoolLike:
    from steepest.datasets.folder import ImageFolder

    mean, std = arguments.mean, arguments.std
    if (mean is None) != (std is None):
        given, absent = ("mean", "std") if std is None else ("std", "mean")
        raise InputError(f"--{given} without --{absent}: give both, as in the model's training")
    folder = ImageFolder(
        arguments.pool,
        size=arguments.size,
        channels=arguments.channels,
        mean=_per_channel(mean, arguments.channels),
        std=_per_channel(std, arguments.channels),
    )
    if mean is None:
        warnings.warn(
            "images were scaled to 0..1 only: give --mean and --std as in the model's training, or "
            "--mean 0 --std 1 if that is what it saw",
            SteepestWarning,
            stacklevel=2,
        )
    return folder


def _per_channel(values: list[float] | None, channels: int) -> list[float] | None:
    return values * channels if values is not None and len(values) == 1 else values
