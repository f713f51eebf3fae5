"""One writer at a time, kept by a lock that dies with its process."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import Self

from steepest.errors import RunFolderError

_NO_LINKS: int = getattr(os, "O_NOFOLLOW", 0)


class InUseError(RunFolderError):
    """Someone else holds it at this moment."""


class FileLock:
    """Exclusive hold on a file or folder, from construction to release.

    The hold ends with ``release``, the end of a ``with`` block, garbage collection or the death
    of the process. The lock file stays behind: deleting it would let two holders in.

    Args:
        path: The path to lock; the lock file is ``NAME.lock`` beside it.
        shown: Its name in errors, such as the folder it is in; by default ``path``.

    Raises:
        InUseError: If someone else holds it.
        RunFolderError: If it cannot be locked.
    """

    def __init__(self, path: Path, shown: Path | None = None) -> None:
        self.path = path.with_name(path.name + ".lock")
        name = path if shown is None else shown
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Through a link in somebody else's folder, a file would be made wherever it leads.
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | _NO_LINKS, 0o666)
        except OSError as error:
            raise RunFolderError(
                f"{name} cannot be locked ({error.strerror}); choose a folder you may write to"
            ) from error
        try:
            _take(descriptor)
        except BlockingIOError:
            os.close(descriptor)
            raise InUseError(
                f"{name} is in use by another process (or still open in this one); close it there"
            ) from None
        except OSError as error:
            os.close(descriptor)
            raise RunFolderError(
                f"{name} cannot be locked ({error.strerror}); move it to a local disk"
            ) from error
        self._finalizer = weakref.finalize(self, _give_up, descriptor, os.getpid())

    @property
    def held(self) -> bool:
        """Whether the lock is still held."""
        return self._finalizer.alive

    def release(self) -> None:
        """Let go; a second call does nothing."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _take(descriptor: int) -> None:
    try:
        import fcntl
    except ImportError:  # a platform without it runs unguarded
        return
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _give_up(descriptor: int, owner_pid: int) -> None:
    # A forked child shares the hold: unlocking there would take it away from the parent, and
    # only closing here would leave it with a child that lives on.
    if os.getpid() == owner_pid:
        try:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_UN)
        except ImportError:
            pass
    os.close(descriptor)
