"""Read a data set as an experiment would, to the last image, and say whether it is whole."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from torch import Tensor

from steepest.cli.arguments import add_quiet, pairs
from steepest.core.progress import Progress, Step, show_progress
from steepest.core.wording import counted
from steepest.data.base import ImageSet, data_root
from steepest.data.catalogue import catalogue, find_layout
from steepest.data.loading import load
from steepest.data.sealed import fits
from steepest.data.streamed import Streamed
from steepest.errors import DataError

NAME = "check"
HELP = "read a data set and say whether it is whole"

_NAMED = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument(
        "name",
        metavar="NAME",
        help="the data set, as `steepest data list` has it, or package.module:function",
    )
    parser.add_argument(
        "--option",
        dest="reader_options",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of the data set, such as source=shards; may be repeated",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="check what loading checks, and leave images that stay on the disk unread",
    )
    add_quiet(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    options = _choose_options(arguments.name, arguments.reader_options)
    data = load(arguments.name, options=options)
    if not arguments.quick:
        _read_all(data, show_progress(enabled=not arguments.quiet))
    print(_describe(data, options))
    if options and not arguments.reader_options:
        asked = " ".join(f"--set data.options.{key}={value}" for key, value in options.items())
        print(f"an experiment reads it by {asked}")
    return 0


def _choose_options(name: str, given: list[str]) -> dict[str, object]:
    """Return the options given, or else those that read what is there."""
    if given:
        return pairs(given)
    root = data_root()
    holding = next((holding for holding in catalogue() if holding.name == name), None)
    layout = None if root is None or holding is None else find_layout(holding, root)
    return {} if layout is None else dict(layout.options)


def _read_all(data: ImageSet, progress: Progress) -> None:
    """Read every sample that loading has left on the disk.

    Raises:
        DataError: If some cannot be read; it names the first few.
    """
    columns = {
        "training images": data.train_images,
        "training labels": data.train_labels.unseal_rows(data.ids, "steepest data check"),
        "test images": data.test_images,
        "test labels": data.test_labels,
    }
    faults: list[str] = []
    for what, column in columns.items():
        if isinstance(column, Streamed):
            classes = len(data.classes) if "labels" in what else None
            with progress.task(f"reading {what}", len(column)) as step:
                faults += _read_column(column, classes, step)
    if faults:
        more = "" if len(faults) <= _NAMED else f" and {len(faults) - _NAMED} more"
        named = "; ".join(faults[:_NAMED])
        raise DataError(
            f"{data.name}: {counted(len(faults), 'sample')} cannot be read: {named}{more}"
        )


def _read_column(column: Streamed, classes: int | None, step: Step) -> list[str]:
    """Read one sample after another, and return what is wrong."""
    faults = []
    for row in range(len(column)):
        try:
            sample = column[[row]]
            if classes is not None and not fits(sample, classes):
                faults.append(f"label map {row} has a label outside 0..{classes - 1}")
        except DataError as error:
            faults.append(str(error))
        step.advance()
    return faults


def _describe(data: ImageSet, options: Mapping[str, object]) -> str:
    sizes = [_describe_size(images) for images in (data.train_images, data.test_images)]
    size = sizes[0] if sizes[0] == sizes[1] else " and ".join(sizes)
    told = ", ".join(f"{key} = {value}" for key, value in options.items())
    name = f"{data.name} ({told})" if told else data.name
    return (
        f"{name} is whole: {len(data.train_images):,} training and "
        f"{len(data.test_images):,} test samples of {size}, "
        f"{counted(len(data.classes), 'class', 'classes')}, "
        f"{data.task}"
    )


def _describe_size(images: Tensor | Streamed) -> str:
    return "x".join(str(side) for side in images.shape[1:])
