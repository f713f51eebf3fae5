"""The file that a program was started with, which new processes may have to run again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
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
