"""Silence about the oddities of image files, also when several threads decode at once."""

from __future__ import annotations

import threading
import warnings


class Quiet:
    """Ignores warnings from the first thread's entry to the last one's exit.

    Pillow does not say which file it warns of. Among what it warns of are photos of more than 89
    megapixels, as telephones make them; twice as many are an error to it, which is told.

    Filters belong to the whole process: were each thread to save and restore them by itself, one
    might restore what another had set.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._inside = 0
        self._saved: warnings.catch_warnings[None] | None = None

    def __enter__(self) -> None:
        with self._guard:
            if not self._inside:
                self._saved = warnings.catch_warnings()
                self._saved.__enter__()
                warnings.simplefilter("ignore")
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._guard:
            self._inside -= 1
            if not self._inside and self._saved is not None:
                self._saved.__exit__(None, None, None)
                self._saved = None


QUIET = Quiet()
"""The one of this process."""
