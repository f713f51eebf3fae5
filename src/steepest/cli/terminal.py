"""Messages and Ctrl-C, as a terminal expects them."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 130
"""The exit code after Ctrl-C."""

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def on_one_line(text: str) -> str:
    """Return a message on one line, with control characters escaped.

    Messages quote names of files and answers of servers, which anybody may have written.
    """
    return _CONTROLS.sub(lambda sign: f"\\x{ord(sign[0]):02x}", " ".join(text.split()))


@contextmanager
def ending_at_once() -> Iterator[None]:
    """Let Ctrl-C end the process at once, instead of raising an exception during imports.

    Libraries catch exceptions while they are imported, and go on without a part of themselves.
    Nothing has begun yet that would need to be cleaned up.
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
