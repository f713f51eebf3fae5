"""The address of a server and the token for it, which is read from the environment only."""

from __future__ import annotations

import os
import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field

from steepest.errors import InputError

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
        """Whether it is a personal access token, to be exchanged before use."""
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
