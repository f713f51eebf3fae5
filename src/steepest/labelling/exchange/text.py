"""Text files that others wrote."""

from __future__ import annotations

from pathlib import Path

from steepest.errors import InputError


def read_text(path: Path) -> str:
    """Read a file of UTF-8 text, with or without the mark that some programs put first.

    Raises:
        InputError: If it cannot be read, or holds nothing.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise InputError(f"{path}, line {line}: is no UTF-8; save the file as UTF-8") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error
    if not text.strip():
        raise InputError(f"{path}: is empty; give a file with labels")
    return text
