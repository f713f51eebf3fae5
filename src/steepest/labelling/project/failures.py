"""Notes images that could not be shown, and when they are shown again."""

from __future__ import annotations

import sqlite3

from steepest.errors import DataError
from steepest.labelling.project.following import let_others_follow
from steepest.labelling.project.history import find_image
from steepest.labelling.project.listing import check_there
from steepest.labelling.project.resolve import reopen
from steepest.labelling.project.settings import Settings
from steepest.labelling.project.source import AccessError, GoneError, Source
from steepest.labelling.project.store import Store

REST_SECONDS = 60.0
"""How long an image that cannot be read at the moment is not given out."""


def note_failure(
    store: Store, source: Source, sample: str, error: DataError, settings: Settings
) -> None:
    """Note why a sample cannot be shown, unless that may pass.

    What is damaged is not given out until its file changes; what is gone, until it is back.

    Raises:
        DataError: If the whole folder is away: then nothing is noted.
    """
    if isinstance(error, AccessError):
        return
    change = "unreadable = :reason"
    if isinstance(error, GoneError):
        check_there(source, store)
        if source.has(sample):
            return
        change = "missing = 1"
    with store.writing() as connection:
        number = find_image(connection, sample)["number"]
        connection.execute(
            f"UPDATE images SET {change} WHERE number = :number",  # noqa: S608
            {"reason": str(error), "number": number},
        )
        _let_go(connection, number)
        reopen(connection, settings.overlap, number)
        let_others_follow(connection, settings, number)


def note_found(store: Store, sample: str, settings: Settings) -> None:
    """Note that a file that was missing is back."""
    with store.writing() as connection:
        number = find_image(connection, sample)["number"]
        connection.execute("UPDATE images SET missing = 0 WHERE number = ?", (number,))
        reopen(connection, settings.overlap, number)


def let_rest(store: Store, sample: str, now: float) -> None:
    """Give out other samples for a while: this one cannot be read at the moment."""
    with store.writing() as connection:
        number = find_image(connection, sample)["number"]
        connection.execute(
            "UPDATE images SET rests_until = ? WHERE number = ?", (now + REST_SECONDS, number)
        )
        _let_go(connection, number)


def _let_go(connection: sqlite3.Connection, number: int) -> None:
    connection.execute("DELETE FROM assignments WHERE image = ?", (number,))
