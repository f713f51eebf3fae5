"""Connections that browsers keep open without using them make room for those that are used."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

_FIRST_SECONDS = 30.0
"""How long a connection may be open before the first request; browsers open some beforehand."""

_Ends = tuple[object, object]


class Connections:
    """All connections of a server; where room is short, those that were quiet longest are closed.

    A request is therefore refused only while as many as allowed are being answered. This is a
    layer on both sides of uvicorn's protocol, of which it knows nothing: it is told of bytes by
    the event loop, and of requests as an application.

    Args:
        app: What answers.
        most: How many connections may be open.
    """

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        self._most = most
        self._open: dict[_Ends, Connection] = {}

    def __len__(self) -> int:
        return len(self._open)

    def connect(self, **given: Any) -> Connection:  # noqa: ANN401 - uvicorn's own
        """Return what a new connection is handled by, for uvicorn's option ``http``."""
        return Connection(self, H11Protocol(**given))

    def add(self, ends: _Ends, connection: Connection) -> None:
        """Take in a connection, in the place of another if there are too many."""
        while len(self._open) >= self._most:
            quiet = [one for one in self._open.items() if not one[1].is_asked]
            if not quiet:
                break
            self._close(min(quiet, key=lambda one: one[1].quiet_since)[0])
        self._open[ends] = connection

    def remove(self, ends: _Ends, connection: Connection) -> None:
        """Forget a connection that is closed."""
        if self._open.get(ends) is connection:
            del self._open[ends]

    def close_unused(self) -> None:
        """Close connections over which nothing was asked for long; call it every now and then."""
        since = time.monotonic() - _FIRST_SECONDS
        for ends, connection in list(self._open.items()):
            if not connection.was_asked and connection.quiet_since < since:
                self._close(ends)

    def _close(self, ends: _Ends) -> None:
        self._open.pop(ends).close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, and note that its connection is in use."""
        connection = self._open.get(_ends(scope["client"], scope["server"]))
        if connection is None:  # it was closed meanwhile
            await self._app(scope, receive, send)
            return
        full = sum(one.is_asked for one in self._open.values()) >= self._most
        app = _TOO_MANY if full else self._app
        connection.begin()
        try:
            await app(scope, receive, send)
        finally:
            connection.end()


class Connection(asyncio.Protocol):
    """One connection of a browser.

    Attributes:
        quiet_since: When it was used last.
        was_asked: Whether there was a request at all.
        is_asked: Whether there is one that is not answered.
    """

    def __init__(self, all_of_them: Connections, inner: asyncio.Protocol) -> None:
        self._all = all_of_them
        self._inner = inner
        self._transport: asyncio.BaseTransport | None = None
        self._ends: _Ends = (None, None)
        self.quiet_since = time.monotonic()
        self.was_asked = False
        self.is_asked = False

    def begin(self) -> None:
        """Note that a request came."""
        self.was_asked = self.is_asked = True

    def end(self) -> None:
        """Note that it is answered."""
        self.is_asked = False
        self.quiet_since = time.monotonic()

    def close(self) -> None:
        """Close it, after what was said already."""
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
        self.quiet_since = time.monotonic()
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
    """Return what tells a connection from all others: addresses and ports of both sides."""
    return tuple(client or ())[:2], tuple(server or ())[:2]


_TOO_MANY = PlainTextResponse(
    "too many requests are being answered; try again in a moment\n",
    503,
    {"connection": "close", "retry-after": "2"},
)
