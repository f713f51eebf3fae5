"""Connections that browsers keep open without using them make room for those that are used."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

_FIRST_SECONDS = 30.0
"""How long a connection may be open before the first request; browsers open some beforehand."""


class Connection(H11Protocol):
    """One connection of a browser; the one that was quiet longest is closed where room is short.

    A new one is therefore refused only while as many requests as allowed are being answered.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(*arguments, **named)
        self._quiet_since = self.loop.time()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, in the place of another if there are too many."""
        if self.limit_concurrency is not None:
            self._make_room(self.limit_concurrency)
        super().connection_made(transport)
        self.timeout_keep_alive_task = self.loop.call_later(
            _FIRST_SECONDS, self.timeout_keep_alive_handler
        )

    def data_received(self, data: bytes) -> None:
        """Take in a part of a request."""
        self._quiet_since = self.loop.time()
        super().data_received(data)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._quiet_since = self.loop.time()
        super().on_response_complete()

    def _make_room(self, most: int) -> None:
        while len(self.connections) + 1 >= most:
            quiet = [
                one for one in self.connections if isinstance(one, Connection) and one.is_quiet
            ]
            if not quiet:
                return
            longest = min(quiet, key=lambda one: one._quiet_since)  # noqa: SLF001 - of our kind
            self.connections.discard(longest)
            # Not by ``shutdown``, which raises if half a request was sent.
            longest.transport.close()

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is being answered here."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete
