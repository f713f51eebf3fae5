"""Requests to a Label Studio server: account, time-outs, retries, and where the token goes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPMessage
from typing import IO, Any, TypeVar

from steepest.core.http_requests import Patience, make_opener
from steepest.core.parsing import parse_json
from steepest.errors import DataError, InputError
from steepest.version import __version__

URL_VARIABLE = "LABEL_STUDIO_URL"
TOKEN_VARIABLE = "LABEL_STUDIO_TOKEN"  # noqa: S105 - the variable's name
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]+")


@dataclass(frozen=True)
class Account:
    """A server and the token that opens it.

    Attributes:
        url: The server's address, without a slash at its end.
        token: The token; never shown.
    """

    url: str
    token: str = field(repr=False)

    @property
    def is_refresh_token(self) -> bool:
        """Whether it is a personal access token, which is exchanged before use."""
        return self.token.count(".") == 2

    def hide(self, text: str) -> str:
        """Return a text without the token, should a server have repeated it."""
        return text.replace(self.token, "***")


def find_account(url: str | None, environment: Mapping[str, str] | None = None) -> Account:
    """Return the account that the command line and the environment name.

    Raises:
        InputError: If the address or the token is missing or cannot be used.
    """
    known = os.environ if environment is None else environment
    address = url or known.get(URL_VARIABLE, "")
    if not address:
        raise InputError(f"no server is named; give --url URL, or set {URL_VARIABLE}")
    token = known.get(TOKEN_VARIABLE, "").strip()
    if not token:
        raise InputError(f"{TOKEN_VARIABLE} is not set; copy the token of your account into it")
    if not _TOKEN.fullmatch(token):
        raise InputError(f"{TOKEN_VARIABLE} holds signs that no token has; copy it again")
    return Account(check_address(address), token)


def check_address(url: str) -> str:
    """Return a server's address in its plain form.

    Raises:
        InputError: If it is none of the web, or carries a password.
    """
    try:
        parts = urllib.parse.urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or any(ord(sign) <= ord(" ") for sign in url):
        raise InputError("the server's address cannot be used; give one such as http://host:8080")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise InputError(
            "the server's address holds a user, a password or a query; give http://host:8080 and "
            f"the token in {TOKEN_VARIABLE}"
        )
    return url.rstrip("/")


_Made = TypeVar("_Made")

_SHOWN = 200
"""Characters of a server's error message that are shown."""


class ServerError(DataError):
    """The server cannot be used."""


class UnavailableError(ServerError):
    """The server gave no answer; the request may or may not have been carried out."""

    given_up = False
    """Whether all retries were used up."""


@dataclass
class Client:
    """Speaks with one server.

    Attributes:
        account: Server and token.
        patience: Time-outs and retries.
    """

    account: Account
    patience: Patience = field(default_factory=Patience)
    _bearer: str = field(default="", repr=False)

    def get(self, path: str, **query: str | int) -> Any:  # noqa: ANN401 - JSON
        """Ask for something, again if need be.

        Raises:
            ServerError: In one line, if there is no usable answer.
        """
        question = urllib.parse.urlencode(query)
        asked = f"{path}?{question}" if question else path
        return self.insist(lambda: self._authorised("GET", asked, None, {}))

    def patch(self, path: str, body: object) -> Any:  # noqa: ANN401 - JSON
        """Set something, again if need be."""
        return self.insist(lambda: self._authorised("PATCH", path, *_as_json(body)))

    def post(self, path: str, body: object) -> Any:  # noqa: ANN401 - JSON
        """Make something, once: to repeat it might make it twice.

        Raises:
            UnavailableError: If it may or may not have been made.
            ServerError: If it was refused.
        """
        return self._authorised("POST", path, *_as_json(body))

    def post_form(self, path: str, body: bytes, content_type: str) -> Any:  # noqa: ANN401 - JSON
        """Send files, once."""
        return self._authorised("POST", path, body, {"Content-Type": content_type})

    def insist(
        self, attempt: Callable[[], _Made], again: Callable[[], _Made] | None = None
    ) -> _Made:
        """Try until the server answers or patience runs out, ``again`` from the second try on."""
        failures = 0
        while True:
            try:
                return attempt()
            except UnavailableError as error:
                failures += 1
                if error.given_up or failures > self.patience.retries:
                    error.given_up = True
                    raise
            self.patience.sleep(self.patience.wait_seconds(failures))
            attempt = again or attempt

    def _authorised(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Any:  # noqa: ANN401 - JSON
        account = self.account
        if not account.is_refresh_token:
            allowed = {"Authorization": f"Token {account.token}"}
            return self._ask(method, path, body, {**headers, **allowed})
        if self._bearer:
            # What a personal access token is exchanged for lives for minutes only.
            with contextlib.suppress(_UnauthorisedError):
                return self._ask(method, path, body, {**headers, **self._pass()})
        exchange = _as_json({"refresh": account.token})
        answer = self._ask("POST", "/api/token/refresh", *exchange)
        self._bearer = str(answer.get("access", "")) if isinstance(answer, dict) else ""
        return self._ask(method, path, body, {**headers, **self._pass()})

    def _pass(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._bearer}"}

    def _ask(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Any:  # noqa: ANN401 - JSON
        url = self.account.url + path
        named = {"User-Agent": f"steepest/{__version__}", "Accept": "application/json", **headers}
        request = urllib.request.Request(url, body, named, method=method)  # noqa: S310 - see account
        try:
            with make_opener(_Redirects()).open(
                request, timeout=self.patience.timeout_seconds
            ) as answer:
                content = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                raise self._refusal(error) from None
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise UnavailableError(
                f"{self.account.url}: no answer ({self._short(str(reason))}); is the server "
                "running, and its address right?"
            ) from None
        try:
            return parse_json(content) if content else None
        except ValueError:
            raise ServerError(
                f"{self.account.url}: did not answer as Label Studio does; check the address"
            ) from None

    def _refusal(self, error: urllib.error.HTTPError) -> ServerError:
        url, code = self.account.url, error.code
        if code in (301, 302, 303, 307, 308):
            try:
                place = urllib.parse.urljoin(error.url or url, error.headers.get("Location", ""))
                scheme, host, port = _origin(place)
                named = f"{scheme}://{host}{f':{port}' if port else ''}"
            except ValueError:
                named = "an address that cannot be read"
            return ServerError(f"{url}: redirects to {named}; give the final address by --url")
        if code == 401:
            return _UnauthorisedError(
                f"{url}: does not accept the token; copy it from your account"
            )
        if code == 403:
            return ServerError(f"{url}: the token's account may not do that; ask its administrator")
        try:
            said = self._short(_complaint(error.read()))
        except (OSError, HTTPException):
            said = ""
        if code >= 500 or code == 429:
            return UnavailableError(f"{url}: failed with status {code} ({said}); try again later")
        return ServerError(f"{url}: refused with status {code} ({said})")

    def _short(self, text: str) -> str:
        hidden = self.account.hide(" ".join(text.split()))
        return (hidden.replace(self._bearer, "***") if self._bearer else hidden)[:_SHOWN]


class _UnauthorisedError(ServerError):
    """The token is not accepted."""


class _Redirects(urllib.request.HTTPRedirectHandler):
    def http_error_302(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
    ) -> object:
        try:
            return super().http_error_302(req, fp, code, msg, headers)
        except ValueError:  # what the server names is no address
            return None

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        # The standard library would carry the token along, to whatever host is named.
        if req.get_method() != "GET" or _origin(newurl) != _origin(req.full_url):
            return None
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urllib.parse.urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


def _as_json(body: object) -> tuple[bytes, dict[str, str]]:
    return json.dumps(body).encode(), {"Content-Type": "application/json"}


def _complaint(content: bytes) -> str:
    """Return the error message in an answer of Label Studio."""
    try:
        answer = parse_json(content)
    except ValueError:
        return "no reason given"
    if not isinstance(answer, dict):
        return str(answer)
    more = answer.get("validation_errors")
    return f"{answer.get('detail', 'no reason given')}{f': {more}' if more else ''}"
