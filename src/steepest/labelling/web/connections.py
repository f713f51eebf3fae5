"""Bounds how many connections are open, and how long each may take to send a request."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

ACCEPTED_AT_ONCE = 16
"""How many connections the event loop accepts in one turn; they are counted two turns later."""

_MOST = 500
_LEAST = 8
_RESERVE = 96
"""Descriptors for the project's files, images, workers and exports."""

_ENOUGH_DESCRIPTORS = 4096

_FIRST_SECONDS = 30.0
"""How long a connection may be open before the first request; browsers open some beforehand."""

_HEAD_SECONDS = 15.0
"""How long the head of a request may take, from its first byte."""

_BODY_SECONDS = 20.0
"""How long a request may pause within its body."""

LET_IN = "steepest.let_in"
"""The key that the gate sets in the scope of a request that it has admitted."""

_Ends = tuple[object, object]


def most_connections() -> int:
    """Return how many connections this process can keep open beside its files.

    Raises the soft limit of descriptors as far as it is useful and allowed.
    """
    limit = _raise_descriptors()
    if limit is None:
        return _MOST
    room = limit - _count_descriptors() - _RESERVE - 3 * ACCEPTED_AT_ONCE
    return max(_LEAST, min(_MOST, room))


def _raise_descriptors() -> int | None:
    """Return the limit of descriptors; None where there is none."""
    if sys.platform == "win32":
        return None
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH_DESCRIPTORS
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def _count_descriptors() -> int:
    for place in ("/proc/self/fd", "/dev/fd"):
        if Path(place).is_dir():
            return len(os.listdir(place))  # noqa: PTH208 - links that may be gone meanwhile
    return _RESERVE


class Connections:
    """All connections of a server; where room is short, those that were quiet longest are closed.

    Connections over which nobody was let in yet go first. One is never closed while its request
    is being answered, so a request is refused only while as many as allowed are; a request whose
    body has not arrived is not being answered.

    This is a layer on both sides of uvicorn's protocol, of which it knows nothing: it is told of
    bytes by the event loop, and of requests as an application.

    Args:
        app: What answers; it notes ``LET_IN`` in the scope of requests that it takes.
        most: How many connections may be open.
    """

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        self._most = most
        self._open: dict[_Ends, Connection] = {}

    def __len__(self) -> int:
        return len(self._open)

    def connect(self, **given: Any) -> Connection:  # noqa: ANN401 - uvicorn's own
        """Return the handler of a new connection, for uvicorn's option ``http``."""
        return Connection(self, H11Protocol(**given))

    def add(self, ends: _Ends, connection: Connection) -> None:
        """Take in a connection, in the place of another if there are too many."""
        while len(self._open) >= self._most:
            quiet = [one for one in self._open.items() if not one[1].is_answered]
            if not quiet:
                break
            self._close(min(quiet, key=lambda one: (one[1].let_in, one[1].quiet_since))[0])
        self._open[ends] = connection

    def remove(self, ends: _Ends, connection: Connection) -> None:
        """Forget a connection that is closed."""
        if self._open.get(ends) is connection:
            del self._open[ends]

    def close_unused(self) -> None:
        """Close connections that ask for nothing, or too slowly; call it every now and then."""
        now = time.monotonic()
        for ends, connection in list(self._open.items()):
            if connection.is_late(now):
                self._close(ends)

    def _close(self, ends: _Ends) -> None:
        self._open.pop(ends).close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, and note that its connection is in use."""
        connection = self._open.get(_ends(scope["client"], scope["server"]))
        if connection is None:  # it was closed meanwhile
            await self._app(scope, receive, send)
            return
        full = sum(one.is_answered for one in self._open.values()) >= self._most
        app = _TOO_MANY if full else self._app
        connection.begin(has_body=Headers(scope=scope).get("content-length", "0") != "0")

        async def receive_body() -> Message:
            message = await receive()
            if not message.get("more_body", False):
                connection.is_sending = False
            return message

        async def send_noted(message: Message) -> None:
            connection.let_in |= bool(scope.get(LET_IN))
            await send(message)

        try:
            await app(scope, receive_body, send_noted)
        finally:
            connection.end()


class Connection(asyncio.Protocol):
    """One connection of a browser.

    Attributes:
        quiet_since: When it was used last.
        let_in: Whether the gate has let a request through.
        is_sending: Whether the body of a request has not arrived in full.
    """

    def __init__(self, all_of_them: Connections, inner: asyncio.Protocol) -> None:
        self._all = all_of_them
        self._inner = inner
        self._transport: asyncio.BaseTransport | None = None
        self._ends: _Ends = (None, None)
        self.quiet_since = time.monotonic()
        self.let_in = False
        self.is_sending = False
        self._is_asked = False
        self._head_by: float | None = self.quiet_since + _FIRST_SECONDS

    @property
    def is_answered(self) -> bool:
        """Whether there is a whole request that is not answered yet."""
        return self._is_asked and not self.is_sending

    def is_late(self, now: float) -> bool:
        """Decide whether a request should have come by now, or more of its body."""
        if self._is_asked:
            return self.is_sending and now > self.quiet_since + _BODY_SECONDS
        return self._head_by is not None and now > self._head_by

    def begin(self, *, has_body: bool) -> None:
        """Note that the head of a request came."""
        self._is_asked, self.is_sending, self._head_by = True, has_body, None

    def end(self) -> None:
        """Note that the request is answered."""
        self._is_asked = self.is_sending = False
        self.quiet_since = time.monotonic()
        self._head_by = self.quiet_since + _FIRST_SECONDS

    def close(self) -> None:
        """Close it after the pending output."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = transport
        said = transport.get_extra_info
        self._ends = _ends(said("peername"), said("sockname"))
        self._all.add(self._ends, self)
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Take in a part of a request."""
        self.quiet_since = now = time.monotonic()
        if not self._is_asked:
            late = now + _HEAD_SECONDS
            self._head_by = late if self._head_by is None else min(late, self._head_by)
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """Take in that nothing follows."""
        return self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._all.remove(self._ends, self)
        self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        """Wait for a slow reader."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Go on."""
        self._inner.resume_writing()


def _ends(client: Iterable[object] | None, server: Iterable[object] | None) -> _Ends:
    """Return the identity of a connection: addresses and ports of both sides."""
    return tuple(client or ())[:2], tuple(server or ())[:2]


_TOO_MANY = PlainTextResponse(
    "too many requests are being answered; try again in a moment\n",
    503,
    {"connection": "close", "retry-after": "2"},
)
