"""Get a data set into the data folder. The same command goes on with an interrupted download."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from steepest.cli.arguments import add_quiet
from steepest.core.files import expand_home
from steepest.core.progress import show_progress
from steepest.data.base import DATA_VARIABLE, data_root
from steepest.data.catalogue import Holding, catalogue, find_holding
from steepest.data.download import Effort, Obtained, Patience, obtain
from steepest.data.loading import names
from steepest.errors import InputError

NAME = "get"
HELP = "download a data set, or bring it in from a disk"
PATIENCE = Patience()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("name", metavar="NAME", help="the data set, as `steepest data list` has it")
    parser.add_argument(
        "--to", type=Path, metavar="DIR", help=f"the data folder (default: {DATA_VARIABLE})"
    )
    origin = parser.add_mutually_exclusive_group()
    origin.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="PATH",
        help="a file or folder of this machine to check and bring in, instead of a download",
    )
    origin.add_argument(
        "--url",
        metavar="URL",
        help="another address of the file; for a data set of several files, that of their folder, "
        "ending in /",
    )
    add_quiet(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
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
    print(_say(holding, obtained, root))
    return 0


def _tell(line: str) -> None:
    print(f"steepest: {line}", file=sys.stderr)


def _say(holding: Holding, obtained: Obtained, root: Path) -> str:
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
