"""The official Python files of CIFAR: a folder of pickles, or the archive as downloaded."""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from steepest.data.array_pickle import load_array_pickle
from steepest.data.completeness import check_md5
from steepest.errors import DataError

Split = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]
"""Images [N, 3, 32, 32] and labels [N]."""

ReadFile = Callable[[str], bytes]
"""Reads one of the official files by its name."""

_PIXELS = 3 * 32 * 32


def open_official(
    folder: Path, archive: Path, md5: str, files: Sequence[str]
) -> tuple[Path, ReadFile] | None:
    """Find the official files, the folder before the archive.

    Returns:
        Where they are and a function that reads one; None if neither is there.

    Raises:
        DataError: If one of ``files`` is missing, or the archive is not the official one.
    """
    if folder.is_dir():
        return folder, _read_folder(folder, files)
    if archive.is_file():
        return archive, _read_archive(archive, md5, files).__getitem__
    return None


def decode_batches(
    read: ReadFile, batches: Sequence[str], where: Path, key: str = "labels"
) -> Split:
    """Decode the named batches into one split.

    Args:
        read: Reads a file.
        batches: The files' names.
        where: The folder or archive, for error messages.
        key: The name that the labels have.

    Raises:
        DataError: If a batch is damaged or has another layout.
    """
    parts = [_decode(read(name), f"{where / name}", key) for name in batches]
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def decode_names(read: ReadFile, file: str, where: Path, key: str) -> tuple[str, ...]:
    """Decode the classes' names.

    Raises:
        DataError: If the file is damaged or has no such names.
    """
    names = _fields(read(file), f"{where / file}").get(key)
    if not isinstance(names, list) or not all(isinstance(n, (bytes, str)) for n in names):
        raise DataError(f"{where / file}: no list of {key}")
    try:
        return tuple(n.decode("ascii") if isinstance(n, bytes) else n for n in names)
    except UnicodeDecodeError as error:
        raise DataError(f"{where / file}: {key} are damaged") from error


def _read_folder(folder: Path, files: Sequence[str]) -> ReadFile:
    missing = [name for name in files if not (folder / name).is_file()]
    if missing:
        raise DataError(f"{folder / missing[0]}: missing")

    def read(name: str) -> bytes:
        try:
            return (folder / name).read_bytes()
        except OSError as error:
            raise DataError(f"{folder / name}: cannot be read ({error.strerror})") from error

    return read


def _read_archive(path: Path, md5: str, files: Sequence[str]) -> Mapping[str, bytes]:
    """Return the named files of an archive, without unpacking it to the disk."""
    check_md5(path, md5)
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                name = member.name.rpartition("/")[2]
                file = archive.extractfile(member) if name in files else None
                if file is not None:
                    found[name] = file.read()
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({error})") from error
    missing = [name for name in files if name not in found]
    if missing:
        raise DataError(f"{path}: {missing[0]} is not in it")
    return found


def _fields(data: bytes, source: str) -> dict[Any, Any]:
    content = load_array_pickle(data, source)
    if not isinstance(content, dict):
        raise DataError(f"{source}: not a CIFAR batch")
    return {k.decode("latin1") if isinstance(k, bytes) else k: v for k, v in content.items()}


def _decode(data: bytes, source: str, key: str) -> Split:
    fields = _fields(data, source)
    pixels, labels = fields.get("data"), fields.get(key)
    if not isinstance(pixels, np.ndarray) or not isinstance(labels, list):
        raise DataError(f"{source}: not a CIFAR batch")
    whole = pixels.dtype == np.uint8 and pixels.ndim == 2 and pixels.shape[1] == _PIXELS
    if not whole or len(pixels) != len(labels) or not all(type(i) is int for i in labels):
        raise DataError(f"{source}: images and labels do not match")
    return pixels.reshape(-1, 3, 32, 32), np.array(labels, dtype=np.int64)
