"""Where samples are: the files of a folder, or the rows of a table of texts."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import sqlite3
import stat
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from steepest.data.folder import SUFFIXES as IMAGE_SUFFIXES
from steepest.data.texts import SUFFIXES as TABLE_SUFFIXES
from steepest.data.texts import read_texts
from steepest.errors import DataError, InputError

Kind = Literal["images", "text"]
"""Kinds of samples that a page shows."""

VOLUME_SUFFIXES = frozenset({".npy", ".npz", ".mrc"})
"""Suffixes of arrays and volumes that are shown as pictures."""

TEXT_SUFFIXES = frozenset({".txt"})
"""Suffixes of files that hold one text each."""

MOST_TEXT_BYTES = 4 << 20
"""Longer texts are refused: they are unreadable on a page."""

_SUFFIXES: Mapping[str, frozenset[str]] = {
    "images": IMAGE_SUFFIXES | VOLUME_SUFFIXES,
    "text": TEXT_SUFFIXES,
}
_HIDDEN = ".steepest"
_DIGEST_BYTES = 16
_OF_CONTENT = (
    *(errno.EINVAL, errno.EOVERFLOW),  # a damaged header sends decoders to impossible places
    *(errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG),
)


class GoneError(DataError):
    """The sample is not there; it may come back as it was."""


class AccessError(DataError):
    """The sample is there and cannot be read at this moment."""


def explain_transient(name: str, error: Exception) -> DataError | None:
    """Return the error to raise for a failure that may pass; None if the file itself is to blame.

    Args:
        name: Name of the file.
        error: The exception raised on opening or reading it.
    """
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return GoneError(f"{name}: the file is gone")
    if isinstance(error, MemoryError):
        return AccessError(f"{name}: cannot be read now (memory is short); it is tried again")
    # Decoders raise errors of the system's kind too, but without its number.
    if not isinstance(error, OSError) or error.errno is None or error.errno in _OF_CONTENT:
        return None
    return AccessError(f"{name}: cannot be read now ({error.strerror}); it is tried again")


class Stamp(NamedTuple):
    """Size, date and place of a sample, which tell a later one of its name without reading it.

    A size and a date can be those of another file: renamed files keep both. What the disk counts by
    itself, the time of the last change of name or rights and the number of the file, they do not
    keep. Folders that change their names leave the files' times alone, and not their numbers.

    Attributes:
        size_bytes: The size.
        changed_ns: When the content was changed last, in nanoseconds; programs may set it.
        place: The number of the file and when its entry was changed, or the digest of a row's text;
            empty in projects of earlier versions.
    """

    size_bytes: int
    changed_ns: int
    place: str

    @classmethod
    def of(cls, status: os.stat_result) -> Stamp:
        """Return the stamp of a file from its status on disk."""
        return cls(status.st_size, status.st_mtime_ns, f"{status.st_ino:x}-{status.st_ctime_ns:x}")

    @classmethod
    def of_row(cls, row: sqlite3.Row) -> Stamp:
        """Return the stamp that was noted for an image."""
        return cls(row["size_bytes"], row["changed_ns"], row["place"])


Found = tuple[str, Stamp]
"""The id of a sample, and its stamp."""


class Source(Protocol):
    """Samples by their ids.

    Attributes:
        path: The folder or the table.
        kind: The kind of the samples.
    """

    path: Path
    kind: Kind

    def is_there(self) -> bool:
        """Decide whether the folder or table itself is there; never raises."""
        ...

    def walk(self, project: Path, refused: list[str], others: Counter[str]) -> Iterator[Found]:
        """Yield all samples.

        Args:
            project: The folder of the project, whose files are no samples.
            refused: Receives the names of samples that cannot be used.
            others: Receives the suffixes of other files.
        """
        ...

    def has(self, sample: str) -> bool:
        """Decide whether a sample is there; never raises."""
        ...

    def stamp(self, sample: str) -> Stamp:
        """Return a sample's stamp.

        Raises:
            GoneError: If it is gone.
            AccessError: If it cannot be looked at in this moment.
            DataError: If it cannot be used at all.
        """
        ...

    def mark(self, sample: str) -> str | None:
        """Return the stamp of a shown sample, which a later file does not have; None if gone."""
        ...

    def open(self, sample: str) -> io.BufferedIOBase:
        """Open a sample for reading; raises as ``stamp`` does."""
        ...


class SampleFolder:
    """The files of a folder and its subfolders; ids are paths within it.

    Args:
        path: The folder.
        kind: The files that are samples: images and volumes, or ``.txt`` files.
    """

    def __init__(self, path: Path, kind: Kind = "images") -> None:
        self.path = path
        self.kind: Kind = kind

    def is_there(self) -> bool:
        """Return whether the folder exists."""
        return os.path.isdir(self.path)  # noqa: PTH112 - never raises

    def walk(self, project: Path, refused: list[str], others: Counter[str]) -> Iterator[Found]:
        """Yield samples; hidden files, and links that lead elsewhere, are left out."""
        inside = self.path.resolve()
        own = f"{project.relative_to(inside).as_posix()}/" if project.is_relative_to(inside) else ""
        waiting = [""]
        while waiting:
            folder = waiting.pop()
            try:
                entries = os.scandir(self.path / folder)
            except OSError:
                refused.append(folder)
                continue
            with entries:
                for entry in entries:
                    name = f"{folder}{entry.name}"
                    if entry.name.startswith("."):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        if f"{name}/" != own:
                            waiting.append(f"{name}/")
                    elif is_sample_name(entry.name, self.kind):
                        found = _look(entry, name, inside)
                        if found is None:
                            refused.append(name)
                        else:
                            yield found
                    elif os.path.isdir(entry.path):  # noqa: PTH112 - a link; never raises
                        refused.append(name)
                    else:
                        others[os.path.splitext(entry.name)[1].lower()] += 1  # noqa: PTH122

    def has(self, sample: str) -> bool:
        """Decide whether there is such a file."""
        return os.path.exists(self.path / sample)  # noqa: PTH110 - never raises

    def stamp(self, sample: str) -> Stamp:
        """Return the stamp of a file."""
        path = self.locate(sample)
        try:
            return Stamp.of(path.stat())
        except OSError as error:
            raise explain_transient(sample, error) or DataError(f"{sample}: no file") from error

    def mark(self, sample: str) -> str | None:
        """Return dates and size of a file; None if it is gone."""
        try:
            status = (self.path / sample).stat()
        except (OSError, ValueError):
            return None
        # Without the file's number: some shares number files anew all the time, and an answer would
        # be refused for that.
        return f"{status.st_mtime_ns:x}-{status.st_size:x}-{status.st_ctime_ns:x}"

    def open(self, sample: str) -> io.BufferedIOBase:
        """Open a file."""
        path = self.locate(sample)
        try:
            return path.open("rb")
        except OSError as error:
            raise explain_transient(sample, error) or DataError(
                f"{sample}: cannot be read ({error.strerror or error})"
            ) from error

    def locate(self, sample: str) -> Path:
        """Return the path of a sample's file.

        Raises:
            GoneError: If it is gone.
            AccessError: If it cannot be looked at in this moment.
            DataError: If it is no plain file, or outside of the folder.
        """
        inside = self.path.resolve()
        try:
            path = (inside / sample).resolve()
            if not path.is_relative_to(inside):
                raise DataError(f"{sample}: outside of the folder of samples")
            if not stat.S_ISREG(path.stat().st_mode):
                raise DataError(f"{sample}: no plain file")
        except (OSError, RuntimeError, ValueError) as error:
            raise explain_transient(sample, error) or DataError(
                f"{sample}: cannot be found"
            ) from error
        return path


class TextTable:
    """The rows of a table or of JSON lines, read again whenever the file changes.

    Args:
        path: The file.
        column: The column of the texts; None finds it by its name.
    """

    kind: Kind = "text"

    def __init__(self, path: Path, column: str | None = None) -> None:
        self.path = path
        self._column = column
        self._guard = threading.Lock()
        self._stamp: Stamp | None = None
        self._texts: Mapping[str, bytes] = {}
        self._skipped: tuple[str, ...] = ()

    def is_there(self) -> bool:
        """Decide whether there is such a file."""
        return os.path.isfile(self.path)  # noqa: PTH113 - never raises

    def walk(self, project: Path, refused: list[str], others: Counter[str]) -> Iterator[Found]:
        """Yield the rows that have a text."""
        del project, others
        texts = self._read()
        refused.extend(self._skipped)
        for sample, text in texts.items():
            try:
                sample.encode()
            except UnicodeEncodeError:
                refused.append(sample)
            else:
                yield sample, _stamp_of(text)

    def has(self, sample: str) -> bool:
        """Decide whether there is such a row."""
        try:
            return sample in self._read()
        except DataError:
            return False

    def stamp(self, sample: str) -> Stamp:
        """Return the stamp of a row, which depends on its text alone."""
        return _stamp_of(self._text(sample))

    def mark(self, sample: str) -> str | None:
        """Return the digest of a row's text; None if the row is gone."""
        try:
            return self.stamp(sample).place
        except DataError:
            return None

    def open(self, sample: str) -> io.BufferedIOBase:
        """Return the text of a row as UTF-8."""
        return io.BytesIO(self._text(sample))

    def _text(self, sample: str) -> bytes:
        text = self._read().get(sample)
        if text is None:
            raise GoneError(f"{sample}: the row is gone")
        return text

    def _read(self) -> Mapping[str, bytes]:
        try:
            stamp = Stamp.of(self.path.stat())
        except OSError as error:
            raise explain_transient(self.path.name, error) or DataError(
                f"{self.path}: cannot be read ({error.strerror or error})"
            ) from error
        with self._guard:
            if stamp != self._stamp:
                try:
                    rows = read_texts(self.path, self._column)
                except InputError as error:  # such as a column that is gone
                    raise DataError(str(error)) from error
                encoded = (text.encode("utf-8", "replace") for text in rows.texts)
                self._texts = dict(zip(map(str, rows.ids), encoded, strict=True))
                self._skipped = tuple(str(sample) for sample, _ in rows.skipped)
                self._stamp = stamp
            return self._texts


def open_source(path: Path, kind: Kind, column: str | None = None) -> SampleFolder | TextTable:
    """Return the samples of a folder or a table.

    Args:
        path: The folder or the table.
        kind: The kind of the samples.
        column: The column of a table's texts; None finds it by its name.
    """
    return TextTable(path, column) if is_table(path) else SampleFolder(path, kind)


def is_table(path: Path) -> bool:
    """Decide by its name whether a path is that of a table of texts."""
    return path.suffix.lower() in TABLE_SUFFIXES and not path.is_dir()


def find_kind(path: Path) -> Kind:
    """Return the kind of a folder or table: text if there are ``.txt`` files and no images."""
    if is_table(path):
        return "text"
    others: Counter[str] = Counter()
    if next(SampleFolder(path).walk(path / _HIDDEN, [], others), None) is not None:
        return "images"
    return "text" if TEXT_SUFFIXES & others.keys() else "images"


def usual_project_folder(path: Path) -> Path:
    """Return where the project of a folder or table is kept unless another place is named."""
    return path.with_name(f"{path.name}{_HIDDEN}") if is_table(path) else path / _HIDDEN


def is_sample_name(name: str, kind: str) -> bool:
    """Decide by its name whether a file is a sample."""
    return os.path.splitext(name)[1].lower() in _SUFFIXES[kind]  # noqa: PTH122 - much faster


def read_text(source: Source, sample: str) -> str:
    """Return the text of a sample.

    Raises:
        GoneError: If it is gone.
        AccessError: If it cannot be read at this moment.
        DataError: If it is no text, or too long.
    """
    try:
        with source.open(sample) as file:
            data = file.read(MOST_TEXT_BYTES + 1)
    except OSError as error:
        raise explain_transient(sample, error) or DataError(f"{sample}: cannot be read") from error
    if len(data) > MOST_TEXT_BYTES:
        raise DataError(f"{sample}: longer than {MOST_TEXT_BYTES >> 20} MB of text")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{sample}: is no UTF-8; save the file as UTF-8") from error
    if not text.strip():
        raise DataError(f"{sample}: no text in it")
    return text


def _stamp_of(text: bytes) -> Stamp:
    digest = hashlib.blake2b(text, digest_size=_DIGEST_BYTES)
    return Stamp(len(text), 0, digest.hexdigest())


def _look(entry: os.DirEntry[str], name: str, inside: Path) -> Found | None:
    try:
        name.encode()
        if entry.is_symlink() and not Path(entry.path).resolve().is_relative_to(inside):
            return None
        if not entry.is_file():
            return None
        status = entry.stat()
    except (OSError, RuntimeError, UnicodeEncodeError):
        return None
    return name, Stamp.of(status)
