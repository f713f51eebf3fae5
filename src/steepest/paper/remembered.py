"""Cache of analyses on disk, with checks that entries are complete and untouched."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from steepest.core.files import write_atomically

_FORM = 1
"""Counts up when analyses begin to keep something else under the same keys."""


def keep(path: Path, value: Any) -> Any:  # noqa: ANN401
    """Write something that is ready for JSON, and return it as it will be read."""
    text = json.dumps(value, allow_nan=False)
    write_atomically(path, json.dumps({"form": _FORM, "digest": _digest(text), "value": value}))
    return json.loads(text)


def recall(path: Path) -> tuple[Any] | None:
    """Return what was written, in a tuple of one; None if it is not there, or damaged."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        value = stored["value"]
        same = stored["form"] == _FORM and stored["digest"] == _digest(json.dumps(value))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return (value,) if same else None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
