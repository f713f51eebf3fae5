"""The verbs of a person who labels; every answer is on disk when its verb returns."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

from steepest.errors import InputError
from steepest.labelling.project.contents import Budget, check_shown, read_if_new
from steepest.labelling.project.history import History, find_image, to_answer
from steepest.labelling.project.predictions import predicted
from steepest.labelling.project.records import Answer, Kind
from steepest.labelling.project.replaced import note_labelled
from steepest.labelling.project.resolve import IMPORTED_BY, refresh
from steepest.labelling.project.settings import Settings
from steepest.labelling.project.store import Store

_MOST_LETTERS = 64

_MOST_BYTES = 16 << 20
"""Files up to this size are read when they are answered, larger ones by the next training."""


class Answering(History):
    """Takes answers.

    Args:
        store: The project's file.
        photos: The folder of the images.
        settings: Asked for what holds now.
        clock: Says what time it is.
        after_answer: Called after an answer is on disk; its errors do not undo that and are
            passed over.
    """

    def __init__(
        self,
        store: Store,
        photos: Path,
        settings: Callable[[], Settings],
        clock: Callable[[], float],
        after_answer: Callable[[], None],
    ) -> None:
        super().__init__(store, settings, clock)
        self._photos = photos
        self._after_answer = after_answer

    def answer(
        self,
        annotator: str,
        sample: str,
        labels: Sequence[str],
        browser: str = "",
        shown: str | None = None,
    ) -> Answer:
        """Say what a sample is: for the first time, or otherwise than before.

        Taken for every known sample at any time, given out or not.

        Args:
            annotator: Who says so.
            sample: What it is about.
            labels: The names of its classes.
            browser: Where; only there it can be taken back.
            shown: What ``mark_file`` said of the file that was shown; None is not compared.

        Raises:
            InputError: If the name, the sample or a class is not known, or another file was shown.
        """
        check_annotator(annotator)
        with self._store.reading() as connection:
            image = find_image(connection, sample)
        # Not within the transaction: others would wait for the disk.
        seen = read_if_new(self._photos, image, Budget(size_bytes=_MOST_BYTES))
        # Not before: what is noted must be what was shown.
        check_shown(self._photos, sample, shown)
        with self._store.writing() as connection:
            image = find_image(connection, sample)
            text = self._classes(connection).encode(labels)
            answer = self._add(connection, (annotator, browser), image, text)
            if seen is not None:
                note_labelled(connection, self._settings(), image, answer, seen)
        self._follow_up()
        return answer

    def skip(
        self, annotator: str, sample: str, browser: str = "", shown: str | None = None
    ) -> Answer:
        """Refuse a sample: it is not given to this person again.

        Raises:
            InputError: If the name or the sample is not known, or another file was shown.
        """
        check_annotator(annotator)
        with self._store.writing() as connection:
            image = find_image(connection, sample)
            check_shown(self._photos, sample, shown)
            answer = self._add(connection, (annotator, browser), image, None)
        self._follow_up()
        return answer

    def undo(self, annotator: str, browser: str = "") -> Answer | None:
        """Take back the last answer that holds of this person here; again takes the one before.

        After a first answer the sample is given to this person next; after a later one the answer
        before holds again, unless that is about an earlier file of the same name. What the same
        person has answered anew at another browser is left: it can be taken back there, and then
        this one here.

        Args:
            annotator: Who.
            browser: Where it was answered, and is shown again. Answers of which that is not known
                can be taken back anywhere.

        Returns:
            The entry in the history; None if there is nothing to take back.
        """
        check_annotator(annotator)
        settings = self._settings()
        with self._store.writing() as connection:
            last = connection.execute(
                """SELECT a.*, i.asked_again FROM answers a JOIN current c ON c.image = a.image
                AND c.annotator = a.annotator AND c.answer = a.number
                JOIN images i ON i.number = a.image
                WHERE a.annotator = ? AND a.browser IN (?, '') ORDER BY a.number DESC LIMIT 1""",
                (annotator, browser),
            ).fetchone()
            if last is None:
                return None
            image, now = last["image"], self._clock()
            number = connection.execute(
                "INSERT INTO answers (at, annotator, image, kind, undoes, browser) "
                "VALUES (?, ?, ?, 'undo', ?, ?)",
                (now, annotator, image, last["number"], browser),
            ).lastrowid
            if last["previous"] is None or last["previous"] <= last["asked_again"]:
                connection.execute(
                    "DELETE FROM current WHERE image = ? AND annotator = ?", (image, annotator)
                )
                expires = now + settings.lease_seconds
                _hold_first(connection, (image, annotator, browser), last["batch"], now, expires)
            else:
                _set_current(connection, image, annotator, last["previous"])
            refresh(connection, image, settings)
            return self._read(connection, number)

    def _follow_up(self) -> None:
        # Whoever hears of an error would take the answer for lost.
        with contextlib.suppress(Exception):
            self._after_answer()

    def _add(
        self,
        connection: sqlite3.Connection,
        given_by: tuple[str, str],
        image: sqlite3.Row,
        labels: str | None,
    ) -> Answer:
        settings, number = self._settings(), image["number"]
        annotator, browser = given_by
        before = connection.execute(
            """SELECT a.number, a.kind FROM current c JOIN answers a ON a.number = c.answer
            WHERE c.image = ? AND c.annotator = ?""",
            (number, annotator),
        ).fetchone()
        # Who answers after a file corrects or confirms it.
        first = (before is None or before["kind"] == "skip") and not image["imported"]
        kind: Kind = "skip" if labels is None else "label" if first else "relabel"
        batch, version, said, probability = _shown(connection, number, annotator, settings)
        added = connection.execute(
            """INSERT INTO answers (at, annotator, image, kind, labels, version, predicted,
            probability, batch, previous, browser) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
            (
                *(self._clock(), annotator, number, kind, labels, version, said, probability),
                *(batch, None if before is None else before["number"], browser),
            ),
        ).lastrowid
        _set_current(connection, number, annotator, added)
        connection.execute(
            "DELETE FROM assignments WHERE image = ? AND annotator = ?", (number, annotator)
        )
        refresh(connection, number, settings)
        return self._read(connection, added)

    def _read(self, connection: sqlite3.Connection, number: int | None) -> Answer:
        row = connection.execute(
            "SELECT a.*, i.id, i.asked_again FROM answers a JOIN images i ON i.number = a.image "
            "WHERE a.number = ?",
            (number,),
        ).fetchone()
        return to_answer(row, self._classes(connection))


def check_annotator(name: str) -> None:
    """Refuse names that cannot be a person's.

    Raises:
        InputError: Saying why.
    """
    if not name or name != name.strip() or len(name) > _MOST_LETTERS or not name.isprintable():
        raise InputError(f"annotator {name!r}: a name has 1 to {_MOST_LETTERS} printable letters")
    if name == IMPORTED_BY:
        raise InputError(f"{IMPORTED_BY!r} stands for labels from files; choose another name")


def _shown(
    connection: sqlite3.Connection, image: int, annotator: str, settings: Settings
) -> tuple[int | None, int | None, str | None, float | None]:
    """Return batch, model version, prediction and its probability at the time of giving out."""
    row = connection.execute(
        """SELECT s.batch, b.version, p.predicted FROM assignments s
        JOIN batches b ON b.number = s.batch
        LEFT JOIN picks p ON p.batch = s.batch AND p.image = s.image
        WHERE s.image = ? AND s.annotator = ?""",
        (image, annotator),
    ).fetchone()
    if row is None:
        return None, None, None, None
    text = row["predicted"] or "[]"
    return row["batch"], row["version"], *predicted(text, multi_label=settings.multi_label)


def _set_current(
    connection: sqlite3.Connection, image: int, annotator: str, answer: int | None
) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO current VALUES (?, ?, ?)", (image, annotator, answer)
    )


def _hold_first(
    connection: sqlite3.Connection,
    held: tuple[int, str, str],
    batch: int | None,
    now: float,
    expires: float,
) -> None:
    """Give an image to a person at a browser before all else that is held there."""
    image, annotator, browser = held
    first = connection.execute(
        "SELECT ifnull(min(turn), 1) - 1 FROM assignments WHERE annotator = ? AND browser = ?",
        (annotator, browser),
    ).fetchone()[0]
    connection.execute(
        "INSERT OR REPLACE INTO assignments VALUES (?, ?, ?, ?, ?, ?, ?)",
        (image, annotator, now, expires, first, batch, browser),
    )
