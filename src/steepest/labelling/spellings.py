"""The same letters in different bytes: é is one sign on some systems and two on others."""

from __future__ import annotations

import unicodedata


def spellings(name: str) -> tuple[str, ...]:
    """Return a name as it stands, with each letter as one sign, and with accents apart.

    Who copies files from one system to another, or through a spreadsheet, sees no difference.
    """
    composed, apart = (unicodedata.normalize(form, name) for form in ("NFC", "NFD"))
    return tuple(dict.fromkeys((name, composed, apart)))
