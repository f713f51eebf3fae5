"""Connections that nobody uses keep nobody out."""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
import socket
from contextlib import asynccontextmanager

import pytest
import uvicorn

from steepest.labelling import web
from steepest.labelling.web.connections import Connections
from steepest.labelling.web.server import configure

MOST = 6
ASK = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n"


class Application:
    def __init__(self):
        self.busy = 0
        self.crowded = asyncio.Event()
        self.enough = asyncio.Event()

    async def __call__(self, scope, receive, send):
        del receive
        if scope["path"] == "/slow":
            self.busy += 1
            if self.busy == MOST:
                self.crowded.set()
            await self.enough.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"here"})


class Scene:
    def __init__(self, port):
        self.app = Application()
        self.connections = Connections(self.app, MOST)
        self.begun = asyncio.Event()
        self.port = port
        self.writers = []

    async def visit(self, *asked):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers.append(writer)
        for request in asked:
            writer.write(request)
        return reader


@asynccontextmanager
async def serving():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        scene = Scene(listener.getsockname()[1])
        server = uvicorn.Server(configure(scene.connections, scene.begun.set))
        running = asyncio.create_task(server.serve([listener]))
        await scene.begun.wait()
        yield scene
        scene.app.enough.set()
        for writer in scene.writers:
            writer.close()
        server.should_exit = True
        await running


def run(scene):
    async def play():
        async with serving() as server:
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
        assert len(server.connections) <= MOST
        # The one that was quiet longest was closed.
        while await idle[0].readline():
            pass

    run(scene)


def test_connections_that_are_being_answered_are_never_closed_for_others():
    async def scene(server):
        slow = [await server.visit(ASK.replace(b"/ ", b"/slow ", 1)) for _ in range(MOST)]
        await server.app.crowded.wait()
        assert b"503" in await (await server.visit(ASK)).readline()
        assert not any(reader.at_eof() for reader in slow)

    run(scene)


def test_nothing_of_the_web_server_is_overridden():
    modules = [
        importlib.import_module(f"{web.__name__}.{found.name}")
        for found in pkgutil.iter_modules(web.__path__)
    ]
    own = [
        kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and kind.__module__ == module.__name__
    ]
    assert len(own) > 5
    bases = {base.__module__.partition(".")[0] for kind in own for base in kind.__mro__}
    assert "uvicorn" not in bases
    assert {"asyncio", "steepest"} <= bases
