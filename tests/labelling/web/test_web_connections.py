"""Connections that nobody uses keep nobody out."""

from __future__ import annotations

import asyncio

import pytest
import uvicorn

from steepest.labelling.web.connections import Connection

MOST = 6
ASK = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n"


class Application:
    def __init__(self):
        self.busy = 0
        self.crowded = asyncio.Event()

    async def __call__(self, scope, receive, send):
        del receive
        if scope["path"] == "/slow":
            self.busy += 1
            if self.busy == MOST - 1:
                self.crowded.set()
            await asyncio.Event().wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"here"})


class Server(uvicorn.Server):
    async def __aenter__(self):
        self.config.load()
        self.lifespan = self.config.lifespan_class(self.config)
        await self.startup()
        self.writers = []
        self.port = self.servers[0].sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error):
        for writer in self.writers:
            writer.close()
        await asyncio.gather(*(w.wait_closed() for w in self.writers), return_exceptions=True)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        for task in self.server_state.tasks:
            task.cancel()
        await asyncio.gather(*self.server_state.tasks, return_exceptions=True)
        self.servers[0].close()

    async def visit(self, *asked):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers.append(writer)
        for request in asked:
            writer.write(request)
        return reader


def run(scene):
    config = uvicorn.Config(
        Application(),
        port=0,
        http=Connection,
        ws="none",
        lifespan="off",
        limit_concurrency=MOST,
        log_level="critical",
    )

    async def play():
        async with Server(config) as server:
            await scene(server)

    asyncio.run(play())


async def is_let_in(server):
    return b"200" in await (await server.visit(ASK)).readline()


@pytest.mark.parametrize("asked", [(), (b"GET / HT",), (ASK,)])
def test_more_idle_connections_than_are_allowed_keep_nobody_out(asked):
    async def scene(server):
        idle = [await server.visit(*asked) for _ in range(3 * MOST)]
        if asked == (ASK,):
            for reader in idle[-2:]:
                assert b"200" in await reader.readline()
        assert await is_let_in(server)
        assert len(server.server_state.connections) < MOST
        # The one that was quiet longest was closed.
        while await idle[0].readline():
            pass

    run(scene)


def test_connections_that_are_being_answered_are_never_closed_for_others():
    async def scene(server):
        slow = [await server.visit(ASK.replace(b"/ ", b"/slow ", 1)) for _ in range(MOST - 1)]
        await server.config.app.crowded.wait()
        assert not await is_let_in(server)
        assert not any(reader.at_eof() for reader in slow)

    run(scene)
