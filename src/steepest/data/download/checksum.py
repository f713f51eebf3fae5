"""MD5 sums, by which the publishers of data sets name their files."""

from __future__ import annotations

import hashlib
from pathlib import Path

from steepest.core.progress import Progress, SilentProgress
from steepest.data.download.megabytes import count_megabytes
from steepest.errors import DataError

_CHUNK_BYTES = 1 << 20


def compute_md5(path: Path, progress: Progress | None = None) -> str:
    """Return a file's MD5 sum as 32 hexadecimal digits.

    Raises:
        DataError: If the file cannot be read.
    """
    digest = hashlib.md5(usedforsecurity=False)
    try:
        total = path.stat().st_size
        with (
            path.open("rb") as file,
            count_megabytes(progress or SilentProgress(), f"checking {path.name}", total) as count,
        ):
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
                count(len(chunk))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    return digest.hexdigest()
