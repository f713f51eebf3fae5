"""The files of a comparison or a run: in a folder, or packed into one archive."""

from __future__ import annotations

import io
import lzma
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from steepest.core.files import write_atomically
from steepest.core.journal import encode_journal, read_journal
from steepest.errors import JournalError, RunFolderError

SUFFIX = ".tar.xz"
RECORDS = "records.jsonl"
COMPARISON = "comparison.json"

_PACKED = frozenset({COMPARISON, RECORDS, "config.json", "data.json"})
"""Files that say what was measured; weights, checkpoints and reports are not packed."""

_LIMIT = 2**29
"""Bytes that an archive may unpack to. The largest comparison of the paper has 20 MB."""


@dataclass(frozen=True)
class Store:
    """The files of one folder, wherever they are.

    Attributes:
        place: The folder. For an archive, the folder that ``tar -xf`` would make beside it.
        packed: The contents by relative path; None for a folder on disk.
    """

    place: Path
    packed: Mapping[str, bytes] | None = field(default=None, repr=False)

    def has(self, name: str) -> bool:
        """Return whether there is a file of that relative path."""
        return (self.place / name).is_file() if self.packed is None else name in self.packed

    def read(self, name: str) -> bytes:
        """Return the content of a file.

        Raises:
            OSError: If it is not there or cannot be read.
        """
        if self.packed is None:
            return (self.place / name).read_bytes()
        if name not in self.packed:
            raise FileNotFoundError(f"{self.place}{SUFFIX} has no {name}")
        return self.packed[name]

    def runs(self) -> list[Store]:
        """Return each folder below that has records, sorted by path."""
        if self.packed is None:
            return [Store(path.parent) for path in sorted(self.place.rglob(RECORDS))]
        names = sorted(name for name in self.packed if PurePosixPath(name).name == RECORDS)
        return [self._within(name.removesuffix(RECORDS)) for name in names]

    def _within(self, folder: str) -> Store:
        files = (self.packed or {}).items()
        inner = {name[len(folder) :]: data for name, data in files if name.startswith(folder)}
        return Store(self.place / folder, inner)


def open_store(path: Path) -> Store:
    """Open a folder, or an archive that ``pack`` wrote.

    Raises:
        JournalError: If the archive is damaged or unpacks to more than a comparison can have.
    """
    return _read_archive(path) if is_archive(path) else Store(path)


def stores_below(folder: Path) -> Iterator[Store]:
    """Yield the folder itself and every archive in it, at any depth, in the order of their names.

    ``full`` comes before ``full-earlier``, as the folders that they were made from would.

    Raises:
        JournalError: If an archive is damaged.
    """
    yield Store(folder)
    for path in sorted(folder.rglob(f"*{SUFFIX}"), key=_without_suffix):
        yield _read_archive(path)


def _without_suffix(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(SUFFIX))


def is_archive(path: Path) -> bool:
    """Return whether a path names an archive rather than a folder."""
    return path.name.endswith(SUFFIX) and path.is_file()


def pack(folder: Path, file: Path | None = None) -> Path:
    """Write the records of a comparison or a run into one archive.

    The same records give the same bytes: names are sorted, dates and owners left out. Scores of
    samples, which would be three quarters of an archive, keep three digits.

    Args:
        folder: The folder of a comparison or a run; it is not changed.
        file: Where to write; beside the folder, as NAME.tar.xz, if not given.

    Returns:
        The archive.

    Raises:
        RunFolderError: If the folder holds no records.
        InputError: If the archive cannot be written.
    """
    folder = folder.resolve()
    paths = [path for path in sorted(folder.rglob("*")) if path.name in _PACKED and path.is_file()]
    if not any(path.name == RECORDS for path in paths):
        raise RunFolderError(
            f"{folder} holds no {RECORDS}: "
            "name the folder that `steepest compare` or `steepest run` wrote"
        )
    target = folder.with_name(folder.name + SUFFIX) if file is None else file
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in paths:
            content = _shortened(path) if path.name == RECORDS else path.read_bytes()
            member = tarfile.TarInfo(f"{folder.name}/{path.relative_to(folder).as_posix()}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    write_atomically(target, lzma.compress(buffer.getvalue(), preset=9 | lzma.PRESET_EXTREME))
    return target


def _shortened(records: Path) -> bytes:
    """Return records with three digits of each score; a torn last line is left out."""
    entries = []
    for entry in read_journal(records)[0]:
        short: dict[str, list[Any]] = {
            "selected_scores": [_short(score) for score in entry.get("selected_scores", ())]
        }
        for key in ("wanted", "unwanted"):
            short[key] = [{**one, "score": _short(one["score"])} for one in entry.get(key, ())]
        entries.append({**entry, **short})
    return encode_journal(entries)


def _short(score: float) -> float:
    return float(f"{score:.3g}")


def _read_archive(path: Path) -> Store:
    place = path.with_name(path.name.removesuffix(SUFFIX))
    try:
        return Store(place, dict(_members(path)))
    except (OSError, lzma.LZMAError, tarfile.TarError, ValueError) as error:
        raise JournalError(f"{path}: cannot be read ({error}); restore it from a copy") from error


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield relative paths with contents; nothing is written, so that no path can escape."""
    # Unpacked as a whole under a limit: a header of a tar file may name any size.
    reader = lzma.LZMADecompressor(format=lzma.FORMAT_XZ)
    data = reader.decompress(path.read_bytes(), max_length=_LIMIT)
    if not reader.eof:
        raise ValueError(f"it is cut short, or unpacks to more than {_LIMIT:,} bytes")
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isfile() else None
            name = PurePosixPath(member.name)
            if content is not None and name.name in _PACKED:
                yield str(PurePosixPath(*name.parts[1:])), content.read()
