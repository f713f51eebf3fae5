"""Folders of classes as one zip file, out and in; nothing is ever unpacked."""

from __future__ import annotations

import csv
import io
import shutil
import tempfile
import warnings
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, BinaryIO

from steepest.core.files import SCRATCH_PREFIX
from steepest.errors import DataError, InputError, SkippedFilesWarning
from steepest.labelling.project import Project
from steepest.labelling.project.classes import ClassList
from steepest.labelling.project.exporting import COPIES, copies_text
from steepest.labelling.project.importing import Given
from steepest.labelling.project.source import is_sample_name

LEFT_OUT = "left-out.csv"
"""What the table of images is called that are not in a zip file."""

_CHUNK_BYTES = 1 << 20
_MOST_IN_MEMORY_BYTES = 64 << 20
_MOST_ENTRIES = 2_000_000


class _Outlet(io.RawIOBase):
    """A file that is carried away while it is written."""

    def __init__(self) -> None:
        self._waiting: list[bytes] = []

    def writable(self) -> bool:
        """Say that it is."""
        return True

    def write(self, data: object) -> int:
        """Keep a piece until it is fetched."""
        piece = bytes(data)  # type: ignore[call-overload]
        self._waiting.append(piece)
        return len(piece)

    def fetch(self) -> bytes:
        """Return the bytes written since the last call."""
        pieces, self._waiting = self._waiting, []
        return b"".join(pieces)


def stream_folders(project: Project) -> Iterator[bytes]:
    """Yield a zip file with every labelled image in the folder of its class.

    Images of no class are left out. So are those that are gone or cannot be read to their end: a
    table in the zip file names them, and a warning says how many they are.
    """
    outlet = _Outlet()
    left_out: list[tuple[str, str, str]] = []
    with zipfile.ZipFile(outlet, "w") as archive:
        # At one moment: people keep answering during a download.
        rows = project.label_rows()
        for sample, label in ((row.sample, label) for row in rows for label in row.labels):
            with _scratch(project) as whole:
                try:
                    _copy(project.pictures.path(sample), whole)
                except (DataError, OSError) as error:
                    left_out.append((sample, label, _reason(error)))
                    continue
                # Images are compressed already.
                info = zipfile.ZipInfo(f"{label}/{sample}")
                with archive.open(info, "w", force_zip64=True) as target:
                    while piece := whole.read(_CHUNK_BYTES):
                        target.write(piece)
                        yield outlet.fetch()
            yield outlet.fetch()
        if left_out:
            archive.writestr(LEFT_OUT, _table(left_out))
        copies = copies_text(rows)
        if copies is not None:
            archive.writestr(COPIES, copies)
    yield outlet.fetch()
    if left_out:
        warnings.warn(_say(len(left_out)), SkippedFilesWarning, stacklevel=2)


def read_folders(
    given: BinaryIO, name: str, classes: ClassList, kind: str = "images"
) -> Iterator[Given]:
    """Yield the labels that the names ``class/id`` in a zip file give.

    Only the list of names is read, so that no entry can do harm.

    Args:
        given: The zip file.
        name: Its name.
        classes: What is known; several folders of one image are several classes, or a mistake.
        kind: The kind of the samples.

    Raises:
        InputError: If it is no zip file, has no image, or a name has no class.
    """
    found: dict[str, list[str]] = {}
    for entry in _list_samples(given, kind):
        label, _, sample = entry.partition("/")
        if not sample:
            raise InputError(
                f"{name}, {entry}: it is in no folder; a folder for each class is needed"
            )
        found.setdefault(sample, []).append(label)
    if not found:
        raise InputError(f"{name}: no sample in the folders of this zip file")
    for sample, labels in found.items():
        if classes.multi_label:
            yield Given(f"{name}, {labels[0]}/{sample}", sample, labels)
        else:
            yield from (Given(f"{name}, {label}/{sample}", sample, [label]) for label in labels)


def _list_samples(given: BinaryIO, kind: str) -> Iterator[str]:
    try:
        with zipfile.ZipFile(given) as archive:
            entries = [entry.filename for entry in archive.infolist() if not entry.is_dir()]
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, EOFError) as error:
        raise InputError("this is no zip file, or it is damaged") from error
    if len(entries) > _MOST_ENTRIES:
        raise InputError(f"{len(entries)} files in one zip file; at most {_MOST_ENTRIES} are taken")
    for entry in entries:
        # Systems put their own files beside images; they are no mistake.
        hidden = entry.rpartition("/")[2].startswith(".") or entry.startswith("__MACOSX/")
        if entry != LEFT_OUT and not hidden and is_sample_name(entry, kind):
            yield entry


def _scratch(project: Project) -> IO[bytes]:
    """Return a place for one image; on disk only if it is large."""
    return tempfile.SpooledTemporaryFile(
        _MOST_IN_MEMORY_BYTES, prefix=SCRATCH_PREFIX, dir=str(project.folder)
    )


def _copy(path: Path, whole: IO[bytes]) -> None:
    """Copy a file to its end before an entry is begun, which could not be taken back.

    Raises:
        OSError: If it cannot be read.
    """
    with path.open("rb") as source:
        shutil.copyfileobj(source, whole, _CHUNK_BYTES)
    whole.seek(0)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _say(count: int) -> str:
    what = "1 image is" if count == 1 else f"{count} images are"
    return (
        f"{what} not in the zip file that was given out, being gone or unreadable: {LEFT_OUT} in "
        "it names them"
    )


def _table(left_out: Iterable[tuple[str, str, str]]) -> str:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)
    rows.writerows([("id", "label", "reason"), *left_out])
    return text.getvalue()
