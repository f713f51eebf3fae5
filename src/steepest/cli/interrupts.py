"""Ctrl-C while a command is being imported."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 130
"""The exit code after Ctrl-C."""


@contextmanager
def ending_at_once() -> Iterator[None]:
    """Let Ctrl-C end the process, without an exception that would run through imports.

    Libraries catch what is raised while they are imported, and go on without a part of
    themselves. Nothing is under way yet that would have to be brought to an end.
    """
    plain = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not plain or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
