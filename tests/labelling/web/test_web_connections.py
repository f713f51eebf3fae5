"""Connections that nobody uses keep nobody out."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import pkgutil
import socket
import subprocess
import sys
from contextlib import asynccontextmanager

import pytest
import uvicorn

from steepest.labelling import web
from steepest.labelling.web import connections
from steepest.labelling.web.connections import ACCEPTED_AT_ONCE, LET_IN, Connections
from steepest.labelling.web.server import QuietLog, configure

MOST = 6
ASK = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n"
ENTER = ASK.replace(b"/ ", b"/let-in ", 1)
SEND = b"POST /form HTTP/1.1\r\nhost: here\r\ncontent-length: 9\r\n\r\n"


class Application:
    def __init__(self):
        self.busy = 0
        self.crowded = asyncio.Event()
        self.enough = asyncio.Event()

    async def __call__(self, scope, receive, send):
        scope[LET_IN] = scope["path"] == "/let-in"
        while scope["path"] == "/form":
            message = await receive()
            if not message.get("more_body", False):
                break
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
        listener.listen(500)
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


def test_requests_whose_bodies_do_not_come_keep_nobody_out():
    async def scene(server):
        for _ in range(MOST):
            await server.visit(SEND, b"half")
        for _ in range(2):
            assert await is_let_in(server)

    run(scene)


def test_who_was_let_in_stays_while_strangers_come_and_go():
    async def scene(server):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        server.writers.append(writer)
        writer.write(ENTER)
        await reader.readuntil(b"0\r\n\r\n")
        for _ in range(3 * MOST):
            await server.visit()
        await is_let_in(server)
        writer.write(ASK)
        assert b"200" in await asyncio.wait_for(reader.readline(), 10)

    run(scene)


@pytest.mark.parametrize(
    ("sent", "limit"),
    [
        ((), "_FIRST_SECONDS"),
        ((b"GET / HT",), "_HEAD_SECONDS"),
        ((ASK, b"GET / HT"), "_FIRST_SECONDS"),
        ((SEND, b"half"), "_BODY_SECONDS"),
    ],
)
def test_what_is_not_sent_in_time_is_not_waited_for(sent, limit, monkeypatch):
    async def is_closed(server):
        reader = await server.visit(*sent)
        await is_let_in(server)
        for _ in range(3):
            await asyncio.sleep(0.02)
            server.connections.close_unused()
        try:
            await asyncio.wait_for(reader.read(), 0.5)
        except TimeoutError:
            return False
        return True

    async def scene(server):
        assert not await is_closed(server)
        monkeypatch.setattr(connections, limit, 0.01)
        assert await is_closed(server)

    run(scene)


def test_bytes_one_by_one_do_not_lengthen_the_time_for_a_head(monkeypatch):
    monkeypatch.setattr(connections, "_HEAD_SECONDS", 0.3)

    async def scene(server):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        server.writers.append(writer)
        for _ in range(100):
            writer.write(b"G")
            await asyncio.sleep(0.02)
            server.connections.close_unused()
            if reader.at_eof() or reader.exception():
                return
        pytest.fail("it is still open")

    run(scene)


@pytest.mark.parametrize(
    ("limit", "least", "most"), [(None, 500, 500), (5000, 500, 500), (512, 50, 330), (64, 8, 8)]
)
def test_there_are_no_more_connections_than_descriptors(limit, least, most, monkeypatch):
    monkeypatch.setattr(connections, "_raise_descriptors", lambda: limit)
    monkeypatch.setattr(connections, "_count_descriptors", lambda: 40)
    assert least <= connections.most_connections() <= most


@pytest.mark.skipif(sys.platform == "win32", reason="has no such limit")
def test_as_many_descriptors_are_taken_as_are_allowed():
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (256, 900))\n"
        "from steepest.labelling.web.connections import most_connections\n"
        "print(most_connections(), resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    connected, limit = map(int, done.stdout.split())
    assert limit == 900
    assert 500 <= connected < 900 - 3 * ACCEPTED_AT_ONCE


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors")  # noqa: PTH112
def test_a_crowd_at_once_takes_no_more_descriptors_than_there_are(monkeypatch, caplog):
    resource = importlib.import_module("resource")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    crowd = (
        "import socket, sys\n"
        "held = [socket.create_connection(('127.0.0.1', int(sys.argv[1]))) for _ in range(300)]\n"
        "print(len(held), flush=True); sys.stdin.read()"
    )

    async def scene(server):
        used = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
        few = used + MOST + 4 * ACCEPTED_AT_ONCE
        held = await asyncio.create_subprocess_exec(
            sys.executable, "-c", crowd, str(server.port),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        resource.setrlimit(resource.RLIMIT_NOFILE, (few, limits[1]))
        try:
            assert await held.stdout.readline() == b"300\n"
            assert await is_let_in(server)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            held.stdin.close()
            await held.wait()

    with caplog.at_level(logging.ERROR):
        run(scene)
    assert not caplog.records


def test_what_is_refused_again_and_again_is_one_line(monkeypatch):
    said, now = [], [100.0]
    monkeypatch.setattr("steepest.labelling.web.server.time.monotonic", lambda: now[0])
    log = logging.getLogger("test_web_connections")
    log.propagate = False
    log.addFilter(QuietLog())
    handler = logging.Handler()
    handler.emit = lambda record: said.append(logging.Formatter().format(record))
    log.addHandler(handler)
    for _ in range(1000):
        full = OSError(24, "Too many open files")
        log.error("no more\nat all", exc_info=full)
    log.error("something else")
    cut = asyncio.CancelledError()
    log.error("Exception in ASGI application", exc_info=cut)
    now[0] += 61
    log.error("no more")
    log.error("something else")
    assert said == [
        "no more ([Errno 24] Too many open files)",
        "something else",
        "no more (and 999 times before)",
        "something else",
    ]


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
