"""JSON and TOML that others may have written: whatever is wrong with it is a ``ValueError``."""

from __future__ import annotations

import json
import operator
import tomllib
from typing import Any

_TOO_DEEP = "brackets are nested too deeply"


def parse_json(text: str | bytes) -> Any:  # noqa: ANN401 - JSON
    """Return the value of a text.

    Raises:
        ValueError: If it is no JSON, or nested so deeply that it cannot be read.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None


def parse_toml(text: str) -> dict[str, Any]:
    """Return the value of a text.

    Raises:
        ValueError: If it is no TOML, or nested so deeply that it cannot be read.
    """
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None


def whole_number(value: Any) -> int | None:  # noqa: ANN401
    """Return a number of any kind as a plain one; None if it is not whole, or no number."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None
