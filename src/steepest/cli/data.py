"""List the data sets, get one into the data folder, or check that it is complete."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor

from steepest.cli.arguments import add_former, add_shared, pairs
from steepest.core.files import expand_home
from steepest.core.progress import Progress, Step, show_progress
from steepest.core.wording import counted
from steepest.data.base import DATA_VARIABLE, ImageSet, data_root
from steepest.data.catalogue import Holding, Layout, Source, catalogue, find_holding, find_layout
from steepest.data.download import Effort, Obtained, Patience, obtain
from steepest.data.loading import load, names
from steepest.data.sealed import fits
from steepest.data.streamed import Streamed
from steepest.errors import DataError, InputError
from steepest.experiment.report.tables import text_table

EXAMPLES = ("steepest data list", "steepest data get cifar10 --to data")

PATIENCE = Patience()
_UNKNOWN = "–"
_NAMED = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions, one sub-command each."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    for name, short, description, add, action in (
        ("list", "list the data sets and where they are", _LIST, _add_list, _list),
        ("get", "download a data set, or import it from a disk", _GET, _add_get, _get),
        ("check", "read a data set and report whether it is complete", _CHECK, _add_check, _check),
    ):
        sub = actions.add_parser(name, help=short, description=description)
        add(sub)
        sub.set_defaults(execute=action)


_LIST = "List the data sets: what is in them, and whether they are in the data folder."


def _add_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json", action="store_true", help="print everything that is known, for programs"
    )


def _list(arguments: argparse.Namespace) -> int:
    root = data_root()
    holdings = {holding.name: holding for holding in catalogue()}
    entries = [_describe(name, holdings.get(name), root) for name in names()]
    if arguments.json:
        print(json.dumps(entries, indent=2, ensure_ascii=False))
        return 0
    columns = ("name", "task", "train_count", "test_count", "classes", "where")
    rows = [[_show(entry.get(column)) for column in columns] for entry in entries]
    print(text_table(["name", "task", "training", "test", "classes", "where"], rows))
    if root is None:
        print(f"steepest: {DATA_VARIABLE} names no data folder", file=sys.stderr)
    return 0


def _describe(name: str, holding: Holding | None, root: Path | None) -> dict[str, Any]:
    if holding is None:  # a reader of whatever one has
        return {"name": name, "where": "your files"}
    layout = None if root is None else find_layout(holding, root)
    entry = asdict(holding)
    entry["where"] = _say_where(holding, layout)
    entry["paths"] = [str(root / path) for path in layout.paths] if root and layout else []
    return entry


def _say_where(holding: Holding, layout: Layout | None) -> str:
    if holding.source in (Source.BUILT_IN, Source.SIMULATED):
        return str(holding.source)
    if layout is None:
        return "not here"
    options = ", ".join(f"{key} = {value}" for key, value in layout.options)
    return f"here ({options})" if options else "here"


def _show(value: object) -> str:
    if value is None:
        return _UNKNOWN
    return f"{value:,}" if isinstance(value, int) else str(value)


_GET = "Get a data set into the data folder. The same command goes on with an interrupted download."


def _add_get(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the data set, as `steepest data list` has it")
    parser.add_argument(
        "--to", type=Path, metavar="DIR", help=f"the data folder (default: {DATA_VARIABLE})"
    )
    origin = parser.add_mutually_exclusive_group()
    origin.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="DIR",
        help="a file or folder of this machine to check and bring in, instead of a download",
    )
    origin.add_argument(
        "--url",
        metavar="URL",
        help="another address of the file; for a data set of several files, that of their folder, "
        "ending in /",
    )
    add_shared(parser, "--quiet")


def _get(arguments: argparse.Namespace) -> int:
    if arguments.name in set(names()) - {holding.name for holding in catalogue()}:
        raise InputError(f"{arguments.name} reads files of your own; there is nothing to get")
    holding = find_holding(arguments.name)
    if not holding.layouts:
        print(f"{holding.name} is {holding.source}: there is nothing to get")
        return 0
    root = data_root() if arguments.to is None else expand_home(arguments.to)
    if root is None:
        raise InputError(f"there is no data folder; set {DATA_VARIABLE}, or give one with --to DIR")
    progress = show_progress(enabled=not arguments.quiet)
    effort = Effort(progress=progress, tell=_tell, patience=PATIENCE)
    obtained = obtain(holding, root, url=arguments.url, source=arguments.source, effort=effort)
    print(_say_obtained(holding, obtained, root))
    return 0


def _tell(line: str) -> None:
    print(f"steepest: {line}", file=sys.stderr)


def _say_obtained(holding: Holding, obtained: Obtained, root: Path) -> str:
    if obtained.missing:
        still = " and ".join(obtained.missing)
        return f"{holding.name} is not complete in {root}: {still} still to come"
    places = " and ".join(map(str, obtained.paths))
    if not obtained.new:
        return f"{holding.name} is already there and whole: {places}"
    lines = [f"{holding.name} is there: {places}", f"Terms: {holding.terms}"]
    named = data_root()
    if named is None or os.path.realpath(named) != os.path.realpath(root):
        lines.append(f"To use it:  export {DATA_VARIABLE}={root.resolve()}")
    return "\n".join(lines)


_CHECK = "Read a data set as an experiment would, to the last image, and say whether it is whole."


def _add_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name",
        metavar="NAME",
        help="the data set, as `steepest data list` has it, or package.module:function",
    )
    setting = parser.add_argument(
        "--set",
        dest="reader_options",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="set an option of the data set, such as source=shards; may be repeated",
    )
    add_former(parser, "--option", setting)
    parser.add_argument(
        "--quick",
        action="store_true",
        help="check what loading checks, and leave images that stay on the disk unread",
    )
    add_shared(parser, "--quiet")


def _check(arguments: argparse.Namespace) -> int:
    options = _choose_options(arguments.name, arguments.reader_options)
    data = load(arguments.name, options=options)
    if not arguments.quick:
        _read_all(data, show_progress(enabled=not arguments.quiet))
    print(_summary(data, options))
    if options and not arguments.reader_options:
        asked = " ".join(f"--set data.options.{key}={value}" for key, value in options.items())
        print(f"an experiment reads it by {asked}")
    return 0


def _choose_options(name: str, given: list[str]) -> dict[str, object]:
    """Return the options given, or else those that match the stored files."""
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
    """Read all samples one by one, and return the errors."""
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


def _summary(data: ImageSet, options: Mapping[str, object]) -> str:
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
