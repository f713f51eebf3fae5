"""Finds files that are byte for byte the same: one is asked about, and its label is theirs."""

from __future__ import annotations

import json
from collections.abc import Sequence

from steepest.labelling.project.contents import Budget, note_contents
from steepest.labelling.project.following import mark_copies
from steepest.labelling.project.settings import Settings
from steepest.labelling.project.source import Source
from steepest.labelling.project.store import Store

# Files of a size of their own are never read; nor are empty ones, which are no images.
_ALIKE = """SELECT i.number, i.id FROM images i
    WHERE i.open = 1 AND i.votes = 0 AND i.skips = 0 AND i.content IS NULL AND i.size_bytes > 0
    AND (:among IS NULL OR i.number IN (SELECT value FROM json_each(:among)))
    AND EXISTS (SELECT 1 FROM images o WHERE o.size_bytes = i.size_bytes
        AND o.number <> i.number AND (o.missing = 0 OR o.labels IS NOT NULL))
    ORDER BY i.shuffle LIMIT :most"""
_MOST = 1 << 40


def find_copies(
    store: Store,
    source: Source,
    settings: Settings,
    *,
    among: Sequence[int] | None = None,
    budget: Budget | None = None,
) -> None:
    """Read files that have the size of another, and mark those that are copies.

    Args:
        store: The project's file.
        source: Where the samples are.
        settings: What holds now.
        among: Numbers of images; None is all.
        budget: What may be read.
    """
    if not settings.ask_copies:
        most = _MOST if budget is None else min(budget.files, _MOST)
        asked = {"among": None if among is None else json.dumps(among), "most": int(most)}
        with store.reading() as connection:
            rows = connection.execute(_ALIKE, asked).fetchall()
        note_contents(store, source, rows, budget)
    with store.writing() as connection:
        mark_copies(connection, settings)
