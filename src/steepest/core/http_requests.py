"""HTTP and HTTPS requests, with the answers that a download needs, and when to retry."""

from __future__ import annotations

import re
import string
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPMessage, HTTPResponse
from typing import IO, cast

from steepest.errors import DataError, InputError, first_line
from steepest.version import __version__

_LONGEST_WAIT_SECONDS = 60.0
_SCHEMES = ("http", "https")
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")


@dataclass(frozen=True)
class Patience:
    """Limits after which a download gives up on a server.

    Attributes:
        retries: How often to try again in a row without a single new byte.
        first_wait_seconds: The wait before the first retry; each further one waits twice as long.
        timeout_seconds: How long a silent connection counts as alive.
        sleep: How to wait.
    """

    retries: int = 5
    first_wait_seconds: float = 1.0
    timeout_seconds: float = 30.0
    sleep: Callable[[float], None] = time.sleep

    def wait_seconds(self, failures: int, asked_seconds: float = 0.0) -> float:
        """Return how long to wait after a number of failures in a row.

        Args:
            failures: Failures so far, from 1.
            asked_seconds: The wait that the server asked for.
        """
        own = self.first_wait_seconds * 2.0 ** (failures - 1)
        return min(max(own, asked_seconds), _LONGEST_WAIT_SECONDS)


def check_url(url: str) -> None:
    """Raise if an address is not one of the web.

    Raises:
        InputError: With the reason.
    """
    try:
        parts = urllib.parse.urlsplit(url)
        usable = parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if usable and parts.username is not None:  # not shown: it may be a password
        raise InputError(
            f"an address of {parts.hostname} that names a user cannot be downloaded; fetch the "
            "file by hand and give it with --from"
        )
    if not usable or any(ord(sign) <= ord(" ") for sign in url):
        raise InputError(f"{url!r} cannot be downloaded; give an address with http:// or https://")


def open_url(url: str, headers: Mapping[str, str], timeout_seconds: float) -> HTTPResponse:
    """Ask for a file and return the answer, its body unread.

    Raises:
        DataError: If the address, or the one that the server sends us to, is none of the web.
        OSError: As ``urllib`` raises it: refused, dropped, timed out, or an error status.
        HTTPException: If the answer is not HTTP.
    """
    asked = {"Accept-Encoding": "identity", "User-Agent": f"steepest/{__version__}", **headers}
    written = urllib.parse.quote(url, safe=string.punctuation)  # as browsers copy it, or not
    request = urllib.request.Request(written, headers=asked)  # noqa: S310 - see check_url and _Redirects
    try:
        return cast(
            "HTTPResponse", make_opener(_Redirects()).open(request, timeout=timeout_seconds)
        )
    except OSError:
        raise
    except ValueError as error:
        raise DataError(
            f"{url}: the address, or where it redirects to, cannot be asked ({first_line(error)}); "
            "give another address with --url"
        ) from error


def proxy_of(url: str) -> str:
    """Return the proxy that an address is asked through, without its password; empty if none is."""
    parts = urllib.parse.urlsplit(url)
    proxy = urllib.request.getproxies().get(parts.scheme, "")
    if not proxy or urllib.request.proxy_bypass(parts.netloc):
        return ""
    return proxy.rpartition("@")[2].rpartition("://")[2]


def version_of(headers: HTTPMessage) -> str:
    """Return the validator of this version of a file for ``If-Range``; empty without one."""
    tag = headers.get("ETag", "").strip()
    # A weak tag may stay while bytes change.
    if tag.startswith('"'):
        return tag
    return headers.get("Last-Modified", "").strip()


def length_of(headers: HTTPMessage) -> int | None:
    """Return the length of a body, if the headers state it."""
    text = headers.get("Content-Length", "").strip()
    return int(text) if text.isascii() and text.isdecimal() else None


def range_of(headers: HTTPMessage) -> tuple[int, int | None] | None:
    """Return where a partial body starts, and the whole file's length if it is stated."""
    found = _RANGE.fullmatch(headers.get("Content-Range", "").strip())
    if found is None:
        return None
    return int(found[1]), None if found[3] == "*" else int(found[3])


class _Redirects(urllib.request.HTTPRedirectHandler):
    def http_error_302(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
    ) -> object:
        place = headers.get("Location") or headers.get("URI") or ""
        scheme = urllib.parse.urlsplit(urllib.parse.urljoin(req.full_url, place)).scheme
        if scheme not in _SCHEMES or (req.type == "https" and scheme == "http"):
            raise DataError(
                f"{req.full_url}: the server redirects to {place}, which is refused; "
                "give another address with --url"
            )
        return super().http_error_302(req, fp, code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


def make_opener(redirects: urllib.request.HTTPRedirectHandler) -> urllib.request.OpenerDirector:
    """Return an opener for web addresses alone, which follows redirects if asked to."""
    # Put together by hand: the usual opener also reads file: and ftp: addresses.
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.UnknownHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        redirects,
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener
