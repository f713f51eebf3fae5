"""Starting worker processes: the main module they import, and their end with the parent."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import wait
from pathlib import Path
from types import ModuleType
from typing import Any


def main_can_be_imported() -> bool:
    """Say whether there is a file to run again: not in a notebook, nor for what was typed in."""
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    # Of a program from the standard input, the file is named "<stdin>".
    return main.__spec__ is not None or (file is not None and Path(file).is_file())


@contextmanager
def main_hidden(hidden: bool) -> Iterator[None]:
    """Show multiprocessing an empty main module, which it has no reason to run again."""
    main: Any = sys.modules["__main__"]
    if hidden:
        sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def end_with_parent() -> None:
    """Let this process end when the one that started it is gone, and not by Ctrl-C before."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer.
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
