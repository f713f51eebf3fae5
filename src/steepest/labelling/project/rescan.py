"""Brings the store up to date with the folder: new, missing, changed and duplicate files."""

from __future__ import annotations

from dataclasses import replace

from steepest.labelling.project.contents import Budget, note_answered
from steepest.labelling.project.copies import find_copies
from steepest.labelling.project.following import mark_copies
from steepest.labelling.project.listing import Scan, scan
from steepest.labelling.project.replaced import CHANGED, settle_suspected
from steepest.labelling.project.settings import Settings
from steepest.labelling.project.source import Source
from steepest.labelling.project.store import Store

_QUICK_FILES, _QUICK_BYTES = 200, 64 << 20
"""How much is read while somebody waits for the page; the next training reads the rest."""
_ALIKE_FILES, _ALIKE_BYTES = 2000, 1 << 30
"""How much is read for copies in one training, where all files have the same size."""


def quick_budget() -> Budget:
    """Return how much may be read while somebody waits."""
    return Budget(_QUICK_FILES, _QUICK_BYTES)


def look_quickly(store: Store, source: Source, settings: Settings) -> Scan:
    """Bring the store up to date with the folder in a moment.

    Raises:
        DataError: If the folder is away as a whole; then nothing is changed.
    """
    found = scan(store, source, settings)
    settle_suspected(store, source, quick_budget())
    with store.writing() as connection:
        mark_copies(connection, settings)
        changed = connection.execute(
            "SELECT count(*) FROM images WHERE changed > 0 AND changed = ?", (CHANGED,)
        ).fetchone()[0]
    return replace(found, changed=int(changed))


def look_closely(store: Store, source: Source, settings: Settings) -> None:
    """Bring the store up to date with the folder, reading all that has to be read for it.

    Raises:
        DataError: If the folder is away as a whole; then nothing is changed.
    """
    scan(store, source, settings)
    settle_suspected(store, source)
    note_answered(store, source)
    find_copies(store, source, settings, budget=Budget(_ALIKE_FILES, _ALIKE_BYTES))
