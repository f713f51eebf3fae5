"""A disk that is full after so many bytes."""

from __future__ import annotations

import errno
import os
from pathlib import Path


class _Full:
    """A file that takes a few bytes and then no more."""

    def __init__(self, file, room):
        self._file = file
        self._room = room

    def write(self, data):
        taken = self._file.write(data[: self._room[0]])
        self._room[0] -= taken
        if taken < len(data) and not taken:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return taken

    def __getattr__(self, name):
        return getattr(self._file, name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()


def fill_disk(monkeypatch, room_bytes, suffix=""):
    """Let files whose names end in ``suffix`` take ``room_bytes`` together."""
    room = [room_bytes]
    usual = Path.open

    def opened(path, mode="r", *args, **kwargs):
        file = usual(path, mode, *args, **kwargs)
        writes = set(mode) & set("wax")
        return _Full(file, room) if writes and path.name.endswith(suffix) else file

    monkeypatch.setattr(Path, "open", opened)
