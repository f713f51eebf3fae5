"""A small web server on this machine that can misbehave in every way that downloads meet."""

from __future__ import annotations

import email.utils
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FileServer:
    """Serves bytes by path; switches say how.

    Attributes:
        files: Bytes by path, without the slash in front.
        ranges: Whether parts can be asked for.
        heeds_versions: Whether ``If-Range`` is obeyed.
        etag: The ETag of every file; None for none.
        date: When every file was changed, in seconds; None for none.
        tells_length: Whether an answer says how long it is.
        chunked: Whether it is sent in chunks, the last of which is empty.
        drops: For each coming answer, after how many bytes the connection breaks.
        statuses: For each coming answer, an error status to give instead.
        more_headers: Headers of every answer.
        redirects: Where a path is now.
        hold_after: After how many bytes an answer stops until ``let_go``.
        asked: Path and headers of each request.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.ranges = True
        self.heeds_versions = True
        self.etag: str | None = '"one"'
        self.date: float | None = 1e9
        self.tells_length = True
        self.chunked = False
        self.drops: list[int] = []
        self.statuses: list[int] = []
        self.more_headers: dict[str, str] = {}
        self.redirects: dict[str, str] = {}
        self.hold_after: int | None = None
        self.holding = threading.Event()
        self.let_go = threading.Event()
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.url = ""

    @property
    def asked_ranges(self) -> list[str | None]:
        """The ``Range`` of each request."""
        return [headers.get("Range") for _, headers in self.asked]

    def version(self) -> str | None:
        date = None if self.date is None else email.utils.formatdate(self.date, usegmt=True)
        return self.etag if self.etag and not self.etag.startswith("W/") else date


@contextmanager
def serving():
    """Start a server on a free port of this machine."""
    state = FileServer()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"state": state}))
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_port}/"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        state.let_go.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    state: FileServer
    protocol_version = "HTTP/1.1"
    close_connection = True

    def do_GET(self):
        path = self.path.lstrip("/")
        self.state.asked.append((path, dict(self.headers)))
        if path in self.state.redirects:
            self._answer(302, b"", {"Location": self.state.redirects[path]})
        elif self.state.statuses:
            self._answer(self.state.statuses.pop(0), b"")
        elif path not in self.state.files:
            self._answer(404, b"")
        else:
            self._serve(self.state.files[path])

    def _serve(self, data):
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        version = self.headers.get("If-Range")
        stale = self.state.heeds_versions and version not in (None, self.state.version())
        headers = {}
        if self.state.etag is not None:
            headers["ETag"] = self.state.etag
        if self.state.date is not None:
            headers["Last-Modified"] = email.utils.formatdate(self.state.date, usegmt=True)
        if not asked or not self.state.ranges or stale:
            self._answer(200, data, headers)
            return
        start = int(asked[1])
        if start >= len(data):
            self._answer(416, b"", {"Content-Range": f"bytes */{len(data)}"})
            return
        headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        self._answer(206, data[start:], headers)

    def _answer(self, status, body, headers=None):
        self.send_response(status)
        for name, value in {**(headers or {}), **self.state.more_headers}.items():
            self.send_header(name, value)
        if self.state.chunked:
            self.send_header("Transfer-Encoding", "chunked")
        elif self.state.tells_length:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        ending = b"0\r\n\r\n" if self.state.chunked else b""
        if self.state.drops and status < 300:
            body, ending = body[: self.state.drops.pop(0)], b""
        if self.state.chunked:
            body = b"%x\r\n%b\r\n" % (len(body), body) + ending
        if self.state.hold_after is not None and len(body) > self.state.hold_after:
            self.wfile.write(body[: self.state.hold_after])
            self.wfile.flush()
            self.state.holding.set()
            self.state.let_go.wait(60)
            body = body[self.state.hold_after :]
        try:
            self.wfile.write(body)
        except OSError:  # the other side is gone, as some tests want it
            self.close_connection = True

    def log_message(self, *_):
        pass
