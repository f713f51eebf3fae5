"""The token of a project, kept between starts in a private file."""

from __future__ import annotations

import os
import re
import secrets
import stat
import tempfile
import warnings
from pathlib import Path

from steepest.core.files import SCRATCH_PREFIX
from steepest.errors import InputError, SettingWarning

TOKEN_NAME = "token"  # noqa: S105 - the name of a file
"""The name of the file in the folder of a project."""

_TOKEN_BYTES = 32
_TOKEN = re.compile(r"[\w-]{43}\n", re.ASCII)
_MOST_BYTES = 64
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def keep_token(folder: Path, *, new: bool = False) -> str:
    """Return the token of the last start, or make one and keep it for the next.

    Where a disk keeps no permissions, the token is for this start alone, and a warning says so.

    Args:
        folder: The folder of the project, which the caller has locked.
        new: Whether to make another, so that the old one lets nobody in any more.

    Raises:
        InputError: If others could have read or written the file, or it holds no token.
    """
    path = folder / TOKEN_NAME
    if not new and os.path.lexists(path):
        return _read(path)
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    _write(path, token)
    return token


def _read(path: Path) -> str:
    """Return the contents of a private file, checked on the opened file and not by name."""
    # A pipe in its place would be waited for, and a link might lead to a file of somebody else.
    careful = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, os.O_RDONLY | careful)
    except OSError as error:
        raise _refuse(path, f"cannot be read ({error.strerror})") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _refuse(path, "is no plain file")
        if not _is_own(status):
            raise _refuse(path, "belongs to another user")
        if not _is_private(status):
            raise InputError(
                f"{path} is open to other users (mode {stat.S_IMODE(status.st_mode):04o}): start "
                f"with --new-token if one may have read it; if none can, run chmod 600 {path}"
            )
        text = os.read(descriptor, _MOST_BYTES).decode("ascii", "replace")
    finally:
        os.close(descriptor)
    if not _TOKEN.fullmatch(text):
        raise _refuse(path, "holds no token")
    return text.strip()


def _write(path: Path, token: str) -> None:
    try:
        # Made with O_EXCL and for its owner alone before anything is in it.
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=SCRATCH_PREFIX)
        scratch = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                private = _is_private(os.fstat(descriptor))
                if private:
                    file.write(f"{token}\n")
                    file.flush()
                    os.fsync(descriptor)
            if private:
                scratch.replace(path)
        finally:
            scratch.unlink(missing_ok=True)
        if not private:
            # What an earlier start kept lets nobody in now, and the next start must not take it.
            path.unlink(missing_ok=True)
            warnings.warn(
                f"{path.parent} keeps no permissions, so that the next start has another token: "
                "choose a folder on a local disk by --project",
                SettingWarning,
                stacklevel=3,
            )
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written ({error.strerror or error}); make room there or choose "
            "another folder by --project"
        ) from error


def _is_private(status: os.stat_result) -> bool:
    return not status.st_mode & _OTHERS


def _is_own(status: os.stat_result) -> bool:
    own = getattr(os, "geteuid", None)  # not every platform has users of this kind
    return own is None or status.st_uid == own()


def _refuse(path: Path, why: str) -> InputError:
    return InputError(f"{path} {why}: start with --new-token, which puts a new one in its place")
