"""The queue: hands out samples to people and takes their answers."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable, Sequence

from steepest.errors import InputError
from steepest.labelling.project.answers import (
    Giver,
    add_answer,
    check_annotator,
    find_annotator,
    hold_first,
    set_current,
)
from steepest.labelling.project.changed_files import note_labelled
from steepest.labelling.project.classes import ClassList
from steepest.labelling.project.consensus import refresh
from steepest.labelling.project.contents import Budget, check_shown, read_if_new
from steepest.labelling.project.history import (
    State,
    find_answer,
    find_image,
    list_answers,
    list_samples,
    resolve_label,
    to_answer,
)
from steepest.labelling.project.pictures import REST_SECONDS
from steepest.labelling.project.records import Answer, Resolved, SampleState, Task, unpack
from steepest.labelling.project.settings import Settings
from steepest.labelling.project.source import Source
from steepest.labelling.project.store import Store

_MOST_AT_ONCE = 100

_MOST_BYTES = 16 << 20
"""Files up to this size are read when they are answered, larger ones by the next training."""

Asked = dict[str, str | int | float]
"""Who asks for how many samples, where, and what holds then; by their names in the queries."""

# An image that could not be read a moment ago is tried again a little later; one that rests too
# far ahead was put aside by a clock that was wrong then.
_AWAKE = "(i.rests_until <= :now OR i.rests_until > :now + :rest)"
# People who hold an image count like those who answered it, or it would be given out too often.
_FREE = f"""i.open = 1 AND {_AWAKE}
    AND NOT EXISTS (SELECT 1 FROM current c WHERE c.image = i.number AND c.annotator = :who)
    AND NOT EXISTS (SELECT 1 FROM assignments s WHERE s.image = i.number AND s.annotator = :who)
    AND i.votes + (SELECT count(*) FROM assignments s WHERE s.image = i.number) < :overlap"""  # noqa: S608
# Which table and index come first is said here: left to itself, SQLite goes through all images.
_AGAIN = f"""SELECT i.number, NULL AS batch FROM images i INDEXED BY images_asked_again
    WHERE {_FREE} AND i.votes = 0 AND i.asked_again > 0
    ORDER BY i.skips, i.shuffle LIMIT 1"""  # noqa: S608
_ASKED = f"""SELECT i.number, NULL AS batch FROM images i INDEXED BY images_asked
    WHERE {_FREE} AND i.asked IS NOT NULL ORDER BY i.skips, i.asked LIMIT 1"""  # noqa: S608
_PICKED = f"""SELECT i.number, p.batch FROM picks p CROSS JOIN images i ON i.number = p.image
    WHERE p.batch = (SELECT max(number) FROM batches) AND {_FREE}
    ORDER BY i.skips > 0, p.rank LIMIT 1"""  # noqa: S608
_BEGUN = f"""SELECT i.number, NULL AS batch FROM images i INDEXED BY images_begun
    WHERE {_FREE} AND i.votes > 0 ORDER BY i.skips, i.shuffle LIMIT 1"""  # noqa: S608
_ANY = f"""SELECT i.number, NULL AS batch FROM images i
    WHERE {_FREE} ORDER BY i.skips, i.shuffle LIMIT 1"""  # noqa: S608
_HELD = f"""SELECT i.number, i.id, s.since, s.expires, s.batch, p.rank, p.score, p.strategy,
        p.predicted, b.version, i.asked_again
    FROM assignments s JOIN images i ON i.number = s.image
    LEFT JOIN picks p ON p.batch = s.batch AND p.image = s.image
    LEFT JOIN batches b ON b.number = s.batch
    WHERE s.annotator = :who AND s.browser = :browser AND i.missing = 0 AND i.unreadable IS NULL
    AND {_AWAKE} ORDER BY s.turn LIMIT :count"""  # noqa: S608
_RENEW = """UPDATE assignments SET expires = :expires WHERE annotator = :who
    AND browser = :browser AND image IN (SELECT number FROM images
    WHERE id IN (SELECT value FROM json_each(:ids)))
    RETURNING (SELECT id FROM images WHERE number = image) AS id"""
_RENEW_SHOWN = f"""UPDATE assignments SET expires = :expires WHERE annotator = :who
    AND browser = :browser AND image IN (SELECT number FROM ({_HELD}))"""  # noqa: S608


class Queue:
    """Gives samples to people, each to as many as the settings say, and takes their answers.

    An answer is on disk when its verb returns.

    Args:
        store: The project's file.
        source: The location of the samples.
        settings: Returns the current settings.
        clock: Returns the time.
        after_answer: Called after an answer is on disk; its errors do not undo that and are
            passed over.
    """

    def __init__(
        self,
        store: Store,
        source: Source,
        settings: Callable[[], Settings],
        clock: Callable[[], float],
        after_answer: Callable[[], None],
    ) -> None:
        self._store = store
        self._source = source
        self._settings = settings
        self._clock = clock
        self._after_answer = after_answer

    def next(
        self, annotator: str, count: int = 1, browser: str = "", *, seconds: float | None = None
    ) -> list[Task]:
        """Return samples that are this person's to answer, and keep them for a while.

        Those that the person holds already come first, so that asking again gives the same. A
        person at two browsers holds other samples at each.

        Args:
            annotator: The person who asks.
            count: How many at most.
            browser: Where.
            seconds: For how long those that are returned are kept; None is as the settings say.

        Returns:
            Fewer if the queue is shorter; none if nothing is left for this person now.

        Raises:
            InputError: If the name or the number cannot be used.
        """
        check_annotator(annotator)
        if not 1 <= count <= _MOST_AT_ONCE:
            raise InputError(f"count is {count}; ask for 1 to {_MOST_AT_ONCE} samples")
        settings, now = self._settings(), self._clock()
        with self._store.writing(lasting=False) as connection:
            # One that ends too far ahead was given out by a clock that was wrong then.
            connection.execute(
                "DELETE FROM assignments WHERE expires <= ? OR expires > ?",
                (now, now + 2 * settings.lease_seconds),
            )
            asked: Asked = {
                "who": annotator,
                "browser": browser,
                "count": count,
                "overlap": settings.overlap,
                "now": now,
                "rest": REST_SECONDS,
                "expires": now + (settings.lease_seconds if seconds is None else seconds),
            }
            held = connection.execute(_HELD, asked).fetchall()
            for _ in range(count - len(held)):
                if not _give(connection, asked, overlap=settings.overlap):
                    break
            # Other samples held there were shown some time ago, and may expire.
            connection.execute(_RENEW_SHOWN, asked)
            held = connection.execute(_HELD, asked).fetchall()
            classes = ClassList.load(connection, multi_label=settings.multi_label)
        return [_task(row, classes) for row in held]

    def renew(
        self, annotator: str, samples: Sequence[str], browser: str = "", *, seconds: float
    ) -> list[str]:
        """Keep samples that are shown for longer, as somebody is still there.

        Args:
            annotator: Who.
            samples: Which of those that were returned by ``next``.
            browser: Where.
            seconds: For how long from now on.

        Returns:
            Those that this person does not hold there any more.
        """
        check_annotator(annotator)
        asked = {
            "who": annotator,
            "browser": browser,
            "ids": json.dumps(list(samples)),
            "expires": self._clock() + seconds,
        }
        with self._store.writing(lasting=False) as connection:
            kept = {row["id"] for row in connection.execute(_RENEW, asked).fetchall()}
        return [sample for sample in samples if sample not in kept]

    def find_annotator(self, name: str) -> str:
        """Return a person's name as already stored, perhaps in other capitals.

        Raises:
            InputError: If it cannot be a person's.
        """
        check_annotator(name)
        with self._store.reading() as connection:
            return find_annotator(connection, name)

    def holders(self) -> dict[str, int]:
        """Return how many samples each person holds that were not given back yet."""
        with self._store.reading() as connection:
            rows = connection.execute(
                "SELECT annotator, count(*) AS held FROM assignments WHERE expires > ? "
                "GROUP BY annotator ORDER BY held DESC, annotator",
                (self._clock(),),
            ).fetchall()
        return {row["annotator"]: row["held"] for row in rows}

    def release(self, annotator: str, browser: str | None = None) -> None:
        """Give back all that this person holds, for others to take.

        Args:
            annotator: Who.
            browser: Where; None is everywhere.
        """
        check_annotator(annotator)
        with self._store.writing(lasting=False) as connection:
            connection.execute(
                "DELETE FROM assignments WHERE annotator = ? AND browser = ifnull(?, browser)",
                (annotator, browser),
            )

    def answer(
        self,
        annotator: str,
        sample: str,
        labels: Sequence[str],
        browser: str = "",
        shown: str | None = None,
    ) -> Answer:
        """Label a sample, for the first time or again.

        Taken for every known sample at any time, given out or not.

        Args:
            annotator: The person who says so.
            sample: The sample that it is about.
            labels: The names of its classes.
            browser: Where; only there it can be taken back.
            shown: The result of ``Source.mark`` for the file that was shown; None is not compared.

        Raises:
            InputError: If the name, the sample or a class is not known, or another file was shown.
        """
        check_annotator(annotator)
        with self._store.reading() as connection:
            image = find_image(connection, sample)
        # Not within the transaction: others would wait for the disk.
        seen = read_if_new(self._source, image, Budget(size_bytes=_MOST_BYTES))
        # Not before: the recorded file must be the one that was shown.
        check_shown(self._source, sample, shown)
        with self._store.writing() as connection:
            image = find_image(connection, sample)
            text = self._classes(connection).encode(labels)
            answer = self._add(connection, Giver(annotator, browser), image, text)
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
            check_shown(self._source, sample, shown)
            answer = self._add(connection, Giver(annotator, browser), image, None)
        self._follow_up()
        return answer

    def undo(self, annotator: str, browser: str = "") -> Answer | None:
        """Undo this person's last answer here; a second call undoes the one before.

        After a first answer the sample is given to this person next; after a later one the answer
        before holds again, unless that is about an earlier file of the same name. What the same
        person has answered again at another browser is left: it can be taken back there, and then
        this one here.

        Args:
            annotator: Who.
            browser: Where it was answered, and is shown again. Answers of which that is not known
                can be taken back anywhere.

        Returns:
            The entry in the history; None if there is nothing to undo.
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
                hold_first(connection, (image, annotator, browser), last["batch"], now, expires)
            else:
                set_current(connection, image, annotator, last["previous"])
            refresh(connection, image, settings)
            return self._read(connection, number)

    def history(
        self,
        annotator: str | None = None,
        *,
        sample: str | None = None,
        limit: int = 50,
        before: int | None = None,
    ) -> list[Answer]:
        """Return valid answers, newest first; those that were undone are left out.

        Args:
            annotator: Their annotator; None for all.
            sample: About which sample; None is all.
            limit: How many at most.
            before: Only those with smaller numbers, to page back.
        """
        with self._store.reading() as connection:
            return list_answers(
                connection,
                self._classes(connection),
                annotator=annotator,
                sample=sample,
                limit=limit,
                before=before,
            )

    def label_of(self, sample: str) -> Resolved:
        """Return all people's answers about a sample, combined.

        Raises:
            InputError: If there is no such sample.
        """
        with self._store.reading() as connection:
            return resolve_label(connection, self._classes(connection), sample)

    def answer_of(self, annotator: str, sample: str) -> Answer | None:
        """Return one person's current answer about a sample.

        Raises:
            InputError: If there is no such sample.
        """
        with self._store.reading() as connection:
            return find_answer(connection, self._classes(connection), annotator, sample)

    def samples(
        self,
        *,
        label: str | None = None,
        state: State | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[SampleState]:
        """Return samples in the order of their ids, for looking through them.

        Those with other labels than their copies stand beside these.

        Args:
            label: Only those that have this class.
            state: Only those in this state.
            limit: How many at most.
            offset: How many to pass over.

        Raises:
            InputError: If there is no such class or state.
        """
        with self._store.reading() as connection:
            return list_samples(
                connection,
                self._classes(connection),
                label=label,
                state=state,
                limit=limit,
                offset=offset,
            )

    def _follow_up(self) -> None:
        # An annotator who sees an error would take the answer for lost.
        with contextlib.suppress(Exception):
            self._after_answer()

    def _add(
        self,
        connection: sqlite3.Connection,
        giver: Giver,
        image: sqlite3.Row,
        labels: str | None,
    ) -> Answer:
        number = add_answer(connection, giver, image, labels, self._settings(), self._clock())
        return self._read(connection, number)

    def _read(self, connection: sqlite3.Connection, number: int | None) -> Answer:
        row = connection.execute(
            "SELECT a.*, i.id, i.asked_again FROM answers a JOIN images i ON i.number = a.image "
            "WHERE a.number = ?",
            (number,),
        ).fetchone()
        return to_answer(row, self._classes(connection))

    def _classes(self, connection: sqlite3.Connection) -> ClassList:
        return ClassList.load(connection, multi_label=self._settings().multi_label)


def _give(connection: sqlite3.Connection, asked: Asked, *, overlap: int) -> bool:
    # What one person has begun is finished before more is begun, or agreement is never known.
    # What a sheet or program waits for comes before what the page has picked by itself.
    later = (_AGAIN, _ASKED, _PICKED, _ANY)
    for query in (_BEGUN, *later) if overlap > 1 else later:
        row = connection.execute(query, asked).fetchone()
        if row is not None:
            break
    else:
        return False
    last = connection.execute(
        "SELECT ifnull(max(turn), 0) + 1 FROM assignments "
        "WHERE annotator = :who AND browser = :browser",
        asked,
    ).fetchone()[0]
    batch = row["batch"]
    if batch is None:
        # Of a begun image the others were shown a prediction too; of another file it says nothing.
        known = """SELECT max(p.batch) FROM picks p JOIN images i ON i.number = p.image
            WHERE i.number = ? AND i.asked_again = 0"""
        batch = connection.execute(known, (row["number"],)).fetchone()[0]
    connection.execute(
        "INSERT INTO assignments VALUES (:image, :who, :now, :expires, :turn, :batch, :browser)",
        {**asked, "image": row["number"], "turn": last, "batch": batch},
    )
    return True


def _task(row: sqlite3.Row, classes: ClassList) -> Task:
    return Task(
        sample=row["id"],
        since=row["since"],
        expires=row["expires"],
        batch=row["batch"],
        rank=row["rank"],
        score=row["score"],
        strategy=row["strategy"],
        version=row["version"],
        predictions=() if row["predicted"] is None else unpack(row["predicted"], classes),
        again=row["asked_again"] > 0,
    )
