"""Folders of classes as one zip file, out and in; nothing is ever unpacked."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from steepest.errors import DataError, InputError
from steepest.labelling.project import Project

_CHUNK_BYTES = 1 << 20
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
        """Return what was written since the last time."""
        pieces, self._waiting = self._waiting, []
        return b"".join(pieces)


def stream_folders(project: Project) -> Iterator[bytes]:
    """Yield a zip file with every labelled image in the folder of its class.

    Nothing is written to disk. Images of no class, and those whose file is gone, are left out.
    """
    outlet = _Outlet()
    with zipfile.ZipFile(outlet, "w") as archive:
        for sample, label in _list_labels(project):
            try:
                path = project.pictures.path(sample)
                with path.open("rb") as source:
                    # Images are compressed already.
                    info = zipfile.ZipInfo(f"{label}/{sample}")
                    with archive.open(info, "w", force_zip64=True) as target:
                        while piece := source.read(_CHUNK_BYTES):
                            target.write(piece)
                            yield outlet.fetch()
            except (DataError, OSError):
                continue
            yield outlet.fetch()
    yield outlet.fetch()


def write_as_lines(given: BinaryIO, path: Path) -> None:
    """Write what the names in a zip file say as JSON lines, ``class/id`` by ``class/id``.

    Only the list of names is read, so that no entry can do harm.

    Raises:
        InputError: If it is no zip file, or a name has no class.
    """
    labels: dict[str, list[str]] = {}
    try:
        with zipfile.ZipFile(given) as archive:
            names = [entry.filename for entry in archive.infolist() if not entry.is_dir()]
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, EOFError) as error:
        raise InputError("this is no zip file, or it is damaged") from error
    if len(names) > _MOST_ENTRIES:
        raise InputError(f"{len(names)} files in one zip file; at most {_MOST_ENTRIES} are taken")
    for name in names:
        label, _, sample = name.partition("/")
        if not sample:
            raise InputError(f"{name!r} is in no folder; a folder for each class is needed")
        if not sample.rpartition("/")[2].startswith(".") and label != "__MACOSX":
            labels.setdefault(sample, []).append(label)
    with path.open("w", encoding="utf-8") as file:
        for sample, given_labels in labels.items():
            line = json.dumps({"id": sample, "labels": given_labels})
            file.write(line + "\n")


def _list_labels(project: Project) -> Iterator[tuple[str, str]]:
    # At one moment: people go on answering during a download.
    for sample, labels in project.labels():
        for label in labels:
            yield sample, label
