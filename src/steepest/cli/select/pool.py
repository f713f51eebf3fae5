"""Opens the pool that the command line names."""

from __future__ import annotations

import argparse
import inspect
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steepest.errors import InputError, SettingWarning
from steepest.selecting.samples import PoolLike

if TYPE_CHECKING:
    import numpy.typing as npt


def add_pool_arguments(parser: argparse.ArgumentParser, images: argparse._ActionsContainer) -> None:
    """Add the arguments of the pool and of how its images are read."""
    parser.add_argument(
        "place",
        nargs="?",
        type=Path,
        metavar="POOL",
        help="folder of images, table of texts, array (.npy, .npz or .parquet), or "
        "package.module:name of your own data set",
    )
    images.add_argument(
        "--pool",
        type=Path,
        metavar="PATH",
        help="the same as POOL",
    )
    images.add_argument(
        "--size", type=int, metavar="PIXELS", help="resize images to squares of this side"
    )
    images.add_argument(
        "--channels",
        type=int,
        choices=(1, 3),
        default=3,
        help="1: grey, 3: colour (default: 3)",
    )
    images.add_argument(
        "--mean",
        type=float,
        nargs="+",
        metavar="M",
        help="mean to subtract, on the 0..1 scale: one number, or one per channel (default: 0, "
        "with a warning)",
    )
    images.add_argument(
        "--std",
        type=float,
        nargs="+",
        metavar="S",
        help="deviation to divide by, likewise",
    )


def check_pool_given(arguments: argparse.Namespace) -> None:
    """Put the pool in its place, which may be given with or without a flag.

    Raises:
        InputError: If it is not given, or twice.
    """
    if arguments.place is not None and arguments.pool is not None:
        raise InputError(f"the pool is given twice: {arguments.place} and {arguments.pool}")
    arguments.pool = arguments.place or arguments.pool
    if arguments.pool is None:
        raise InputError("say what to choose from, such as: steepest select photos/ -k 100")


def open_pool(arguments: argparse.Namespace) -> PoolLike:
    """Return the pool, ready to be read.

    Raises:
        InputError: If it is no folder of images, no array and nothing of the user's own code.
    """
    own, array = is_own(arguments.pool), arguments.pool.suffix in (".npy", ".npz", ".parquet")
    if own or array:
        what = "a data set of your own" if own else "an array"
        for name in ("size", "mean", "std"):
            if getattr(arguments, name) is not None:
                raise InputError(f"--{name} is for folders of images; {what} is taken as it is")
        if arguments.pool.suffix == ".parquet":
            from steepest.data import ParquetRows

            return ParquetRows(arguments.pool)
        return _make_own(str(arguments.pool)) if own else open_array(arguments.pool)
    if arguments.pool.is_file():
        raise InputError(
            f"--pool {arguments.pool} is a file: give a folder of images, or one array in a .npy, "
            ".npz or .parquet file"
        )
    return _open_folder(arguments)


def is_own(pool: Path) -> bool:
    """Say whether a pool is named ``package.module:name``, and is no path that there is."""
    module, colon, name = str(pool).partition(":")
    return (
        bool(colon)
        and all(map(str.isidentifier, [*module.split("."), name]))
        and not (pool.exists())
    )


def _make_own(name: str) -> PoolLike:
    """Import the user's own data set, or call its factory."""
    from steepest.core.own_code import current_directory_importable, import_own, own_failures_told

    found: Any = import_own("pool", name, "package.module:name")
    if found is None:
        module, _, attribute = name.partition(":")
        raise InputError(f"pool {name!r}: {module} has no {attribute!r}")
    # What can be indexed is a pool already; a class has to be made into one.
    if callable(found) and (isinstance(found, type) or not hasattr(found, "__getitem__")):
        with current_directory_importable(), own_failures_told("pool", name):
            try:
                inspect.signature(found).bind()
            except TypeError as error:
                raise InputError(
                    f"pool {name!r} cannot be made ({error}): name a function that takes no "
                    "arguments and returns the data set"
                ) from error
            found = found()
    return found


def open_array(path: Path) -> npt.NDArray[Any]:
    """Return the array in a file.

    Raises:
        InputError: If it cannot be read, or a .npz file holds several.
    """
    import numpy as np

    try:
        if path.suffix == ".npy":
            # Copy on write: the file stays as it is, and torch is content.
            found: npt.NDArray[Any] = np.load(path, mmap_mode="c", allow_pickle=False)
            return found
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            names = stored.files
            if len(names) == 1:
                found = stored[names[0]]
    except Exception as error:  # damaged bytes make zip and numpy raise almost anything
        raise InputError(f"{path} cannot be read as an array ({error})") from error
    if len(names) != 1:
        held = ", ".join(names) or "nothing"
        raise InputError(f"--pool {path} holds {held}: save the inputs alone, as one array")
    return found


def _open_folder(arguments: argparse.Namespace) -> PoolLike:
    from steepest.data.folder import ImageFolder

    mean, std = arguments.mean, arguments.std
    if (mean is None) != (std is None):
        given, absent = ("mean", "std") if std is None else ("std", "mean")
        raise InputError(f"--{given} without --{absent}: give both, as in the model's training")
    folder = ImageFolder(
        arguments.pool,
        size=arguments.size,
        channels=arguments.channels,
        mean=_per_channel([0.0] if mean is None else mean, arguments.channels),
        std=_per_channel([1.0] if std is None else std, arguments.channels),
    )
    if mean is None:
        warnings.warn(
            "images were scaled to 0..1 only: give --mean and --std as in the model's training, or "
            "--mean 0 --std 1 if that is what it saw",
            SettingWarning,
            stacklevel=2,
        )
    return folder


def _per_channel(values: list[float], channels: int) -> list[float]:
    return values * channels if len(values) == 1 else values
