"""Messages as a terminal may show them."""

from __future__ import annotations

import re

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def on_one_line(text: str) -> str:
    """Return a message on one line, with signs that would steer the terminal written out.

    Names of files, and what servers say, are in many messages and may be anybody's.
    """
    return _CONTROLS.sub(lambda sign: f"\\x{ord(sign[0]):02x}", " ".join(text.split()))
