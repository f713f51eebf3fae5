"""Your own arrays, out of an npz file as ``numpy.savez`` writes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from steepest.core.files import expand_home
from steepest.data.arrays import from_arrays
from steepest.data.base import DATASETS, ImageSet
from steepest.errors import DataError, NonFiniteError

_NEEDED = ("train_images", "train_labels")
_TEST = ("test_images", "test_labels")
_OPTIONAL = ("classes", "mean", "std")


@DATASETS.register("npz")
def npz(
    root: Path | None = None,
    *,
    path: str,
    layout: str = "auto",
    augmentation: str = "none",
    test_share: float = 0.0,
    seed: int = 0,
) -> ImageSet:
    """Load the arrays of an npz file.

    It holds ``train_images``, ``train_labels``, ``test_images`` and ``test_labels``, and may hold
    ``classes`` (names), ``mean`` and ``std`` (per channel). Their forms are those that
    ``from_arrays`` takes.

    Args:
        root: The folder of data sets.
        path: The file; if it is not there, it is looked for under ``root``.
        layout: ``"channels-first"``, ``"channels-last"``, or ``"auto"`` to find out from the shape.
        augmentation: The name of the augmentation that suits the images in training.
        test_share: The share of samples to test on, whatever their class, where the file has no
            test images.
        seed: Decides which those are.

    Raises:
        DataError: If the file is missing or damaged, lacks an array, or they do not fit together.
        InputError: If an option cannot be used.
    """
    file = _find(root, path)
    arrays = _read(file)
    try:
        return from_arrays(
            arrays["train_images"],
            arrays["train_labels"],
            arrays.get("test_images"),
            arrays.get("test_labels"),
            _to_names(arrays.get("classes")),
            name="npz",
            mean=arrays.get("mean"),
            std=arrays.get("std"),
            layout=layout,
            augmentation=augmentation,
            test_share=test_share,
            seed=seed,
        )
    except (DataError, NonFiniteError) as error:
        raise DataError(f"{file}: {error}") from error


def _find(root: Path | None, path: str) -> Path:
    given = expand_home(path)
    for file in [given] if root is None else [given, root / given]:
        if file.is_file():
            return file
    raise DataError(f"{given}: no such file; set the option path to an npz file")


def _read(file: Path) -> dict[str, npt.NDArray[Any]]:
    try:
        with file.open("rb") as opened:
            stored = np.load(opened, allow_pickle=False)
            if isinstance(stored, np.lib.npyio.NpzFile):
                with stored:
                    return _take(stored, file)
    except DataError:
        raise
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror or error})") from error
    except MemoryError as error:
        raise DataError(
            f"{file}: does not fit into memory; save fewer samples, or give arrays mapped from "
            "disk to from_arrays"
        ) from error
    except Exception as error:  # damaged bytes make zip and numpy raise almost anything
        raise DataError(f"{file}: not an npz file, or damaged; save it again") from error
    raise DataError(f"{file}: a single array; save several with numpy.savez")


def _take(stored: np.lib.npyio.NpzFile, file: Path) -> dict[str, npt.NDArray[Any]]:
    needed = _NEEDED + _TEST if any(key in stored for key in _TEST) else _NEEDED
    missing = [key for key in needed if key not in stored]
    if missing:
        raise DataError(
            f"{file}: no array {missing[0]!r} in it, but {', '.join(stored) or 'nothing'}; "
            f"save it with the names {', '.join(_NEEDED + _TEST)}"
        )
    taken = {}
    for key in (*_NEEDED, *_TEST, *_OPTIONAL):
        if key not in stored:
            continue
        try:
            taken[key] = stored[key]
        except ValueError as error:
            if "allow_pickle" not in str(error):
                raise
            raise DataError(
                f"{file}: {key} holds Python objects, which are not read; save numbers or strings"
            ) from error
    return taken


def _to_names(classes: npt.NDArray[Any] | None) -> tuple[str, ...] | None:
    if classes is None:
        return None
    if classes.ndim != 1:
        raise DataError(f"classes are {list(classes.shape)}; give one name each [K]")
    try:
        return tuple(n.decode() if isinstance(n, bytes) else str(n) for n in classes.tolist())
    except UnicodeDecodeError as error:
        raise DataError("classes are not text in UTF-8; save text instead of bytes") from error
