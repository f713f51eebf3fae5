"""Listens, opens the browser, and ends on request."""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import signal
import socket
import threading
import time
import webbrowser
from collections import Counter
from collections.abc import Callable, Sequence
from types import FrameType
from typing import cast

import uvicorn

from steepest.errors import InputError
from steepest.labelling.project import Project
from steepest.labelling.web.addresses import list_addresses, own_address
from steepest.labelling.web.app import create_app
from steepest.labelling.web.connections import (
    ACCEPTED_AT_ONCE,
    Connections,
    most_connections,
)
from steepest.labelling.web.gate import TOKEN

USUAL_PORT = 8433
_PATIENCE_SECONDS = 3
_BACKLOG = 2048
_REPEATED_SECONDS = 60.0


def listen(host: str, port: int | None) -> socket.socket:
    """Take a port.

    Args:
        host: The address.
        port: None takes the usual one, or any if that is in use; 0 takes any.

    Raises:
        InputError: If it cannot be had.
    """
    if port is not None and not 0 <= port < 1 << 16:
        raise InputError(f"port {port} does not exist; use 0 to 65535")
    try:
        return _bind(host, USUAL_PORT if port is None else port)
    except OSError as error:
        if port is None and error.errno == errno.EADDRINUSE:
            return _bind(host, 0)
        what = f"{host} port {USUAL_PORT if port is None else port}"
        reason = error.strerror or error
        raise InputError(f"{what} cannot be listened on ({reason}); choose another") from error


def serve(
    project: Project,
    *,
    token: str,
    host: str,
    listener: socket.socket,
    name: str | None = None,
    open_browser: bool = False,
    announce: Callable[[Sequence[str]], None],
) -> None:
    """Show the pages until Ctrl-C or a request to end.

    Args:
        project: The project to label.
        token: Who knows it may come in.
        host: The address that is listened on.
        listener: A port that was taken.
        name: The person who labels, unless the browser says otherwise.
        open_browser: Whether to open one.
        announce: Told the addresses of the page, with its token, once it can be opened.
    """
    port = listener.getsockname()[1]
    gate = create_app(project, token=token, host=host, name=name, cookie=f"steepest-{port}")
    connections = Connections(gate, most_connections())
    ending = f":{port}/?{TOKEN}="
    addresses = [f"http://{place}{ending}{token}" for place in list_addresses(host, listener)]

    def begin() -> None:
        listener.listen(_BACKLOG)
        announce(addresses)
        if open_browser:
            page = f"http://{own_address(host)}{ending}{gate.issue_ticket()}"
            # Some browsers come back only when they are closed.
            threading.Thread(target=webbrowser.open, args=(page,), daemon=True).start()

    server = uvicorn.Server(configure(connections, begin))
    before = signal.signal(signal.SIGTERM, _end)
    quiet = QuietLog()
    logs = [logging.getLogger(name) for name in ("uvicorn.error", "asyncio")]
    for log in logs:
        log.addFilter(quiet)
    try:
        server.run([listener])
    except KeyboardInterrupt:
        pass
    finally:
        for log in logs:
            log.removeFilter(quiet)
        signal.signal(signal.SIGTERM, before)
        listener.close()


def configure(connections: Connections, begin: Callable[[], None]) -> uvicorn.Config:
    """Return the options of uvicorn.

    Args:
        connections: Answers the requests.
        begin: Called once, when the pages can be opened.
    """
    begun = False

    async def look_around() -> None:
        nonlocal begun
        if not begun:
            begun = True
            begin()
        connections.close_unused()

    return uvicorn.Config(
        connections,
        log_level="warning",
        access_log=False,  # an access log would hold the token
        server_header=False,
        proxy_headers=False,  # connections are distinguished by their real addresses
        http=cast("type[asyncio.Protocol]", connections.connect),
        backlog=ACCEPTED_AT_ONCE,
        ws="none",
        lifespan="off",  # a second Ctrl-C would break it off in the middle of its words
        callback_notify=look_around,
        timeout_notify=0,  # every second, as it is looked after
        timeout_graceful_shutdown=_PATIENCE_SECONDS,
    )


class QuietLog(logging.Filter):
    """Logs repeated messages once a minute with their number, and without tracebacks.

    Requests that Ctrl-C cuts short are passed over: who pressed it needs no traceback of them.
    """

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, float] = {}
        self._more: Counter[str] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Decide whether to write a record, and add the number of suppressed ones."""
        line = record.getMessage().partition("\n")[0]
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, asyncio.CancelledError) or "timeout graceful shutdown" in line:
            return False
        now = time.monotonic()
        if now < self._said.get(line, -math.inf) + _REPEATED_SECONDS:
            self._more[line] += 1
            return False
        self._said[line] = now
        if isinstance(error, OSError):
            record.msg, record.args, record.exc_info = f"{line} ({error})", (), None
        if more := self._more.pop(line, 0):
            record.msg, record.args = f"{record.getMessage()} (and {more} times before)", ()
        return True


def _end(number: int, frame: FrameType | None) -> None:
    """End as after Ctrl-C, so that the project is closed in order."""
    del number, frame
    raise KeyboardInterrupt


def _bind(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        # A port that is bound and not listened on may still be bound by others.
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener
