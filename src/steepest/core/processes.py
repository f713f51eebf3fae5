"""Worker processes: how they start, what they are asked, the errors they send, and their end."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from steepest.errors import SteepestError, in_one_line


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


Work = Callable[[Any, Any], Any]
"""Maps what all items of a round have in common, and one item, to an answer."""


class Workers(Protocol):
    """Processes that answer one item after another.

    An item may be worked on more than once, such as after a process was killed.
    """

    def answers(
        self, make: Callable[[], Work], common: object, items: Sequence[object]
    ) -> Iterator[tuple[int, Any]]:
        """Yield the number of each item and its answer, as they come.

        Args:
            make: Returns what does the work; called in each process.
            common: What all items have in common; sent to a worker once.
            items: One for each piece of work.

        Raises:
            SteepestError: If no worker can be had.
            Exception: Whatever the work raised.
        """


@dataclass(frozen=True)
class Failure:
    """An error on its way to another process."""

    error: Exception


def tried(work: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever it returns
    """Return the result of a piece of work, or its error as a ``Failure``."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - the work may be of anyone's code
        return Failure(sendable(error))


def sendable(error: Exception, instead: Exception | None = None) -> Exception:
    """Return an error that survives the way to another process, and tells where it comes from.

    Args:
        error: Being handled.
        instead: What to send in its place.
    """
    sent = error if instead is None else instead
    try:
        pickle.loads(pickle.dumps(sent))  # noqa: S301 - just made
    except Exception:  # noqa: BLE001 - its class may need more than its message
        plain = isinstance(error, SteepestError)
        sent = SteepestError(str(error)) if plain else RuntimeError(in_one_line(error))
    sent.add_note(f"In a worker process:\n{traceback.format_exc()}")
    return sent
