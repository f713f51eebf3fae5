"""Access control: checks the token, the origin and the size of requests."""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
import threading
from collections.abc import Mapping
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from steepest.labelling.web.addresses import own_names
from steepest.labelling.web.connections import LET_IN

TOKEN = "token"  # noqa: S105 - the name of a parameter
HEADER = "x-steepest"
"""A page of another origin cannot send this without being asked first, and is never let."""

UPLOAD_PATH = "/import"
MOST_BYTES = 256 << 10
MOST_UPLOAD_BYTES = 64 << 20

YEAR_SECONDS = 365 * 86_400
_MARK_BYTES = 12
_MARK = re.compile(r"[\w-]{16}", re.ASCII)
_ENTERED = (
    "<!doctype html><html lang=en><title>steepest</title>"
    '<meta name=viewport content="width=device-width">'
    '<link rel=icon href=/static/icon.svg><p>You are in: <a href="/">go on</a>.\n'
)
_ENTRY = "open the address that `steepest label` printed, by pasting it into the address bar"
_ELSEWHERE = f"this request came from another site and was refused; {_ENTRY}"
_SAFETY = {
    "content-security-policy": "default-src 'self'; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Gate:
    """Wraps the pages and rejects requests that did not come from them.

    Args:
        app: The application behind it.
        token: Who knows it may come in.
        host: The address that is listened on; decides which names the server answers to.
        cookie: The name under which browsers keep that they were let in. What they keep is made
            anew for each gate and is not the token, since they show it to servers on other ports
            of the same machine. Beside it, under its own name, each keeps a random mark that
            tells it from the others.
    """

    def __init__(
        self, app: ASGIApp, *, token: str, host: str = "127.0.0.1", cookie: str = "steepest"
    ) -> None:
        self._app = app
        self._token = token
        self._host = host
        self._cookie = cookie
        self._names = {"localhost", host.lower()}
        if not is_loopback(host):
            self._names |= own_names()
        self._session = secrets.token_urlsafe(32)
        self._tickets: set[str] = set()
        self._guard = threading.Lock()

    def issue_ticket(self) -> str:
        """Return a token that opens the gate once.

        A browser is started with it: the address that it is started with can be read by others
        on the machine.
        """
        ticket = secrets.token_urlsafe(32)
        with self._guard:
            self._tickets.add(ticket)
        return ticket

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            guarded = _add_safety(send)
            refusal = self._answer(scope)
            scope[LET_IN] = refusal is None
            await (refusal or self._app)(scope, receive, guarded)

    def _answer(self, scope: Scope) -> Response | None:
        """Return the refusal shown instead of the page; None admits the request."""
        headers = Headers(scope=scope)
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return _refuse(405, "only GET and POST are known here")
        if not self._knows_host(headers.get("host", "")):
            return _refuse(403, f"this server does not answer to that name; {_ENTRY}")
        if not _is_own(headers, scope["method"]):
            return _refuse(403, _ELSEWHERE)
        # Those of other programs on this machine may be malformed.
        cookies = cookie_parser(headers.get("cookie", ""))
        given = parse_qs(scope["query_string"].decode("latin-1")).get(TOKEN)
        if given is not None and scope["path"] == "/":
            return self._enter(given[-1], cookies, headers.get("accept", ""))
        if not _same(self._session, cookies.get(self._cookie, "")):
            return _refuse(403, f"no valid token; {_ENTRY}")
        return _check_size(scope["path"], headers)

    def _enter(self, given: str, cookies: Mapping[str, str], accepted: str) -> Response:
        with self._guard:
            ticket = next((t for t in self._tickets if _same(t, given)), None)
            self._tickets.discard(ticket or "")
        if ticket is None and not _same(self._token, given):
            return _refuse(403, f"this token is not valid any more; {_ENTRY}")
        answer: Response = RedirectResponse("/", status_code=303)
        if "text/html" in accepted:
            # A browser keeps an address that redirects in its history and suggests it from then
            # on; one that was answered by an error it hides.
            answer = HTMLResponse(_ENTERED, 403, {"refresh": "0; url=/"})
        answer.set_cookie(self._cookie, self._session, httponly=True, samesite="strict")
        name = browser_cookie(self._cookie)
        mark = read_mark(cookies.get(name)) or secrets.token_urlsafe(_MARK_BYTES)
        answer.set_cookie(name, mark, max_age=YEAR_SECONDS, httponly=True, samesite="strict")
        answer.headers["cache-control"] = "no-store"
        return answer

    def _knows_host(self, header: str) -> bool:
        """Decide whether a name is ours: a stranger's name may be made to lead here."""
        try:
            name = urlsplit(f"//{header}").hostname or ""
        except ValueError:
            return False
        if name in self._names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or not is_loopback(self._host)


def browser_cookie(cookie: str) -> str:
    """Return the name of the cookie that identifies a browser."""
    return f"{cookie}-browser"


def read_mark(kept: str | None) -> str:
    """Return a browser's identity; nothing if the cookie is not ours."""
    return kept if kept is not None and _MARK.fullmatch(kept) else ""


def is_loopback(host: str) -> bool:
    """Decide whether an address can only be reached from this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _is_own(headers: Headers, method: str) -> bool:
    """Decide whether a request comes from our own page or from the address bar."""
    if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    if origin is not None:
        try:
            place = urlsplit(origin).netloc
        except ValueError:
            return False
        if place.lower() != headers.get("host", "").lower():
            return False
    return method != "POST" or HEADER in headers


def _check_size(path: str, headers: Headers) -> Response | None:
    if "transfer-encoding" in headers:
        return _refuse(411, "say the length of the request")
    try:
        length = int(headers.get("content-length", "0"))
    except ValueError:
        return _refuse(400, "the length of the request is not a number")
    most = MOST_UPLOAD_BYTES if path == UPLOAD_PATH else MOST_BYTES
    if length > most:
        return _refuse(413, f"{length} bytes are too many; at most {most} are taken")
    return None


def _same(right: str, given: str) -> bool:
    """Compare without telling by the time it takes how much is right."""
    return hmac.compare_digest(right.encode(), given.encode("utf-8", "surrogatepass"))


def _refuse(status: int, line: str) -> Response:
    return PlainTextResponse(line + "\n", status, {"cache-control": "no-store"})


def _add_safety(send: Send) -> Send:
    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            message.setdefault("headers", [])
            headers = MutableHeaders(scope=message)
            for name, value in _SAFETY.items():
                headers[name] = value
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return guarded
