"""Pictures of samples for the eye: small, cached on disk, and safe from hostile files."""

from __future__ import annotations

import hashlib
import io
import re
import secrets
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from steepest.core.devices import usable_cores
from steepest.core.files import write_atomically
from steepest.errors import DataError, InputError
from steepest.labelling.project.decoding import read_picture
from steepest.labelling.project.failures import let_rest, note_failure, note_found
from steepest.labelling.project.history import find_image
from steepest.labelling.project.listing import check_there
from steepest.labelling.project.settings import Settings
from steepest.labelling.project.stamps import Stamp
from steepest.labelling.project.store import Store
from steepest.labelling.project.transient_errors import AccessError, GoneError, explain_transient

SIDES = range(16, 2049)
"""The sides in pixels that a picture may be asked for."""

_QUALITY = 88
_MOST_CACHED_BYTES = 512 << 20
_WRITES_BETWEEN_LOOKS = 256
_MOST_AT_ONCE = 4
_CACHED = re.compile(r"[0-9a-f]{32}\.jpg")
_CACHE_BYTES = 16


@dataclass(frozen=True)
class Picture:
    """A picture as a browser takes it.

    Attributes:
        data: The file's bytes.
        media_type: ``"image/jpeg"``.
        etag: Changes with the file.
    """

    data: bytes
    media_type: str
    etag: str


class Pictures:
    """Shows samples.

    Args:
        store: The project's file.
        photos: The folder of the samples.
        settings: Asked for what holds now.
        clock: Says what time it is.
    """

    def __init__(
        self,
        store: Store,
        photos: Path,
        settings: Callable[[], Settings],
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._photos = photos
        self._settings = settings
        self._clock = clock
        # A folder that nobody can know before it is made: what lies in others may have come with
        # the project, from anybody, and show what is not in the file.
        self._cache = store.path.parent / "thumbnails" / secrets.token_hex(_CACHE_BYTES)
        self._writes = 0
        self._guard = threading.Lock()
        # A large file takes up to a gigabyte while it is decoded, and a page asks for many.
        self._decoding = threading.BoundedSemaphore(min(_MOST_AT_ONCE, usable_cores()))

    def path(self, sample: str) -> Path:
        """Return where a sample's file is, within the folder.

        Raises:
            InputError: If there is no such sample.
            DataError: If the file is gone, or is a link out of the folder.
        """
        with self._store.reading() as connection:
            find_image(connection, sample)
        return locate(self._photos, sample)

    def thumbnail(self, sample: str, side: int = 512) -> Picture:
        """Return a sample as a JPEG file no side of which is longer than asked for.

        Raises:
            InputError: If there is no such sample, or the side cannot be used.
            DataError: If it cannot be shown. What is damaged is then marked so and not given out
                until its file changes; what may pass is tried again.
        """
        if side not in SIDES:
            raise InputError(f"side is {side}; use {SIDES.start} to {SIDES.stop - 1} pixels")
        with self._store.reading() as connection:
            row = find_image(connection, sample)
        if row["unreadable"] is not None:
            raise DataError(row["unreadable"])
        try:
            path = locate(self._photos, sample)
            changed = _version(path)
            etag = hashlib.sha256(f"{sample}\0{changed}\0{side}".encode()).hexdigest()[:32]
            cached = self._cache / f"{etag}.jpg"
            data = _read(cached) or self._make(path, side, cached)
        except DataError as error:
            note_failure(self._store, self._photos, sample, error, self._settings())
            if isinstance(error, AccessError):
                let_rest(self._store, sample, self._clock())
            raise
        if row["missing"]:
            note_found(self._store, sample, self._settings())
        return Picture(data, "image/jpeg", etag)

    def is_away(self, sample: str) -> bool:
        """Decide whether a sample's file is gone, and all others with it."""
        try:
            locate(self._photos, sample)
        except GoneError:
            try:
                check_there(self._photos, self._store)
            except DataError:
                return True
        except DataError:
            return False
        return False

    def _make(self, path: Path, side: int, cached: Path) -> bytes:
        with self._decoding:
            made = _read(cached)  # by another who waited for the same
            if made is not None:
                return made
            file = io.BytesIO()
            read_picture(path, side).save(file, "JPEG", quality=_QUALITY)
        data = file.getvalue()
        try:
            write_atomically(cached, data)
        except InputError:
            return data  # a full disk costs time, not the picture
        with self._guard:
            self._writes += 1
            writes = self._writes
        if writes == 1:
            for earlier in set(self._cache.parent.iterdir()) - {self._cache}:
                trim(earlier, 0)
        if writes % _WRITES_BETWEEN_LOOKS == 0:
            trim(self._cache, _MOST_CACHED_BYTES)
        return data


def locate(photos: Path, sample: str) -> Path:
    """Return a sample's file.

    Raises:
        GoneError: If it is gone.
        AccessError: If it cannot be looked at in this moment.
        DataError: If it is no plain file, or outside of the folder.
    """
    inside = photos.resolve()
    try:
        path = (inside / sample).resolve()
        if not path.is_relative_to(inside):
            raise DataError(f"{sample}: outside of the folder of images")
        if not stat.S_ISREG(path.stat().st_mode):
            raise DataError(f"{sample}: no plain file")
    except (OSError, RuntimeError, ValueError) as error:
        raise explain_transient(sample, error) or DataError(f"{sample}: cannot be found") from error
    return path


def trim(cache: Path, most_bytes: int) -> None:
    """Remove the oldest files of a folder of pictures until it is well within its limit.

    What has no name of ours is none of the cache's: the folder may have come from elsewhere.
    """
    if cache.is_symlink() or not cache.is_dir():
        return
    files = []
    for path in cache.iterdir():
        if not _CACHED.fullmatch(path.name):
            continue
        try:
            status = path.stat()
        except OSError:
            continue
        files.append((status.st_mtime_ns, status.st_size, path))
    total = sum(size for _, size, _ in files)
    if total > most_bytes:
        for _, size, path in sorted(files):
            path.unlink(missing_ok=True)
            total -= size
            if total <= most_bytes * 3 // 4:
                break
    if not most_bytes:
        with suppress(OSError):  # it holds what is not ours
            cache.rmdir()


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _version(path: Path) -> str:
    """Return what changes with a file; on some disks, the date alone does not."""
    try:
        return str(tuple(Stamp.of(path.stat())))
    except OSError as error:
        raise explain_transient(path.name, error) or DataError(f"{path.name}: no file") from error
