"""The official Python batches of CIFAR: a folder of pickles, or the archive as downloaded."""

from __future__ import annotations

import hashlib
import tarfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from steepest.datasets.array_pickle import load_array_pickle
from steepest.errors import DataError

Split = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]
"""Images [N, 3, 32, 32] and labels [N]."""

_PIXELS = 3 * 32 * 32
_CHUNK_BYTES = 1 << 20


def read_folder(folder: Path, batches: Sequence[str]) -> Callable[[str], bytes]:
    """Return a function that reads one of the named batches of a folder.

    Raises:
        DataError: If a batch is missing.
    """
    missing = [name for name in batches if not (folder / name).is_file()]
    if missing:
        raise DataError(f"{folder / missing[0]}: missing")

    def read(name: str) -> bytes:
        try:
            return (folder / name).read_bytes()
        except OSError as error:
            raise DataError(f"{folder / name}: cannot be read ({error.strerror})") from error

    return read


def read_archive(path: Path, md5: str, batches: Sequence[str]) -> Mapping[str, bytes]:
    """Return the named batches of an archive, without unpacking it to the disk.

    Raises:
        DataError: If the archive is not the official one, or lacks a batch.
    """
    found: dict[str, bytes] = {}
    try:
        _check_md5(path, md5)
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                name = member.name.rpartition("/")[2]
                file = archive.extractfile(member) if name in batches else None
                if file is not None:
                    found[name] = file.read()
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({error})") from error
    missing = [name for name in batches if name not in found]
    if missing:
        raise DataError(f"{path}: {missing[0]} is not in it")
    return found


def decode_batches(read: Callable[[str], bytes], batches: Sequence[str], where: Path) -> Split:
    """Decode the named batches into one split.

    Raises:
        DataError: If a batch is damaged or has another layout.
    """
    parts = [_decode(read(name), f"{where / name}") for name in batches]
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def _decode(data: bytes, source: str) -> Split:
    content = load_array_pickle(data, source)
    if not isinstance(content, dict):
        raise DataError(f"{source}: not a CIFAR batch")
    fields = {k.decode() if isinstance(k, bytes) else k: v for k, v in content.items()}
    pixels, labels = fields.get("data"), fields.get("labels")
    if not isinstance(pixels, np.ndarray) or not isinstance(labels, list):
        raise DataError(f"{source}: not a CIFAR batch")
    whole = pixels.dtype == np.uint8 and pixels.ndim == 2 and pixels.shape[1] == _PIXELS
    if not whole or len(pixels) != len(labels) or not all(type(i) is int for i in labels):
        raise DataError(f"{source}: images and labels do not match")
    return pixels.reshape(-1, 3, 32, 32), np.array(labels, dtype=np.int64)


def _check_md5(path: Path, md5: str) -> None:
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    if digest.hexdigest() != md5:
        raise DataError(f"{path}: MD5 is {digest.hexdigest()}, not {md5}")
