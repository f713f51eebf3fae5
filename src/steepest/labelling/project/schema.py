"""The tables of a labelling project."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing

VERSION = 8
"""Counts changes of the tables; a file of a later version is refused."""

_OF_CONTENT = (
    "CREATE INDEX images_by_size ON images (size_bytes)",
    "CREATE INDEX images_by_content ON images (content) WHERE content IS NOT NULL",
    "CREATE INDEX images_changed ON images (changed) WHERE changed > 0",
    "CREATE INDEX images_copied ON images (copy_of) WHERE copy_of IS NOT NULL",
    """CREATE INDEX images_asked_again ON images (skips, shuffle)
        WHERE open = 1 AND votes = 0 AND asked_again > 0""",
)

_OF_DECISIONS = (
    """CREATE TABLE decisions (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        at REAL NOT NULL,
        annotator TEXT NOT NULL,
        kind TEXT NOT NULL,
        detail TEXT NOT NULL
    )""",
    """CREATE TABLE decided (
        image INTEGER NOT NULL REFERENCES images,
        decision INTEGER NOT NULL REFERENCES decisions,
        PRIMARY KEY (image, decision)
    ) WITHOUT ROWID""",
    "CREATE INDEX decided_by_decision ON decided (decision)",
)

_OF_DOORS = (
    "CREATE TABLE project (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    # What a person was asked by a sheet, a server or a program; the page asks by assignments.
    """CREATE TABLE questions (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        at REAL NOT NULL,
        door TEXT NOT NULL,
        round INTEGER NOT NULL,
        who TEXT NOT NULL,
        kind TEXT NOT NULL CHECK (kind IN ('ask', 'withdraw')),
        image INTEGER NOT NULL REFERENCES images,
        answers INTEGER NOT NULL
    )""",
    "CREATE INDEX questions_by_image ON questions (image, number)",
    """CREATE TRIGGER questions_stay BEFORE UPDATE ON questions
        BEGIN SELECT RAISE(ABORT, 'questions are never changed'); END""",
    """CREATE TRIGGER questions_are_kept BEFORE DELETE ON questions
        BEGIN SELECT RAISE(ABORT, 'questions are never deleted'); END""",
    """CREATE TABLE rounds (
        door TEXT NOT NULL,
        number INTEGER NOT NULL,
        at REAL NOT NULL,
        record TEXT NOT NULL,
        PRIMARY KEY (door, number)
    ) WITHOUT ROWID""",
    "CREATE INDEX images_asked ON images (skips, asked) WHERE open = 1 AND asked IS NOT NULL",
)

TABLES = (
    "CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE classes (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)",
    # What follows from the answers (votes to disputed) is kept beside each image, so that a
    # queue over a hundred thousand images needs no counting.
    """CREATE TABLE images (
        number INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        size_bytes INTEGER NOT NULL,
        changed_ns INTEGER NOT NULL,
        seen INTEGER NOT NULL,
        held_out INTEGER NOT NULL,
        shuffle REAL NOT NULL,
        missing INTEGER NOT NULL DEFAULT 0,
        unreadable TEXT,
        votes INTEGER NOT NULL DEFAULT 0,
        skips INTEGER NOT NULL DEFAULT 0,
        imported INTEGER NOT NULL DEFAULT 0,
        labels TEXT,
        disputed INTEGER NOT NULL DEFAULT 0,
        open INTEGER NOT NULL DEFAULT 1,
        rests_until REAL NOT NULL DEFAULT 0,
        content TEXT,
        changed INTEGER NOT NULL DEFAULT 0,
        asked_again INTEGER NOT NULL DEFAULT 0,
        copy_of INTEGER,
        enough INTEGER NOT NULL DEFAULT 0,
        place TEXT NOT NULL DEFAULT '',
        asked INTEGER
    )""",
    "CREATE INDEX images_in_line ON images (open, skips, shuffle)",
    "CREATE INDEX images_begun ON images (skips, shuffle) WHERE open = 1 AND votes > 0",
    "CREATE INDEX images_labelled ON images (labels) WHERE labels IS NOT NULL",
    *_OF_CONTENT,
    """CREATE TABLE assignments (
        image INTEGER NOT NULL REFERENCES images,
        annotator TEXT NOT NULL,
        since REAL NOT NULL,
        expires REAL NOT NULL,
        turn INTEGER NOT NULL,
        batch INTEGER,
        browser TEXT NOT NULL DEFAULT '',
        PRIMARY KEY (image, annotator)
    ) WITHOUT ROWID""",
    "CREATE INDEX assignments_held ON assignments (annotator, turn)",
    """CREATE TABLE answers (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        at REAL NOT NULL,
        annotator TEXT NOT NULL,
        image INTEGER NOT NULL REFERENCES images,
        kind TEXT NOT NULL CHECK (kind IN ('label', 'relabel', 'skip', 'undo')),
        labels TEXT,
        version INTEGER,
        predicted TEXT,
        probability REAL,
        batch INTEGER,
        previous INTEGER,
        undoes INTEGER,
        browser TEXT NOT NULL DEFAULT '',
        round INTEGER,
        reason TEXT NOT NULL DEFAULT ''
    )""",
    "CREATE INDEX answers_by_annotator ON answers (annotator, number)",
    "CREATE INDEX answers_by_image ON answers (image, number)",
    "CREATE UNIQUE INDEX answers_undone ON answers (undoes) WHERE undoes IS NOT NULL",
    """CREATE TRIGGER answers_stay BEFORE UPDATE ON answers
        BEGIN SELECT RAISE(ABORT, 'answers are never changed'); END""",
    """CREATE TRIGGER answers_are_kept BEFORE DELETE ON answers
        BEGIN SELECT RAISE(ABORT, 'answers are never deleted'); END""",
    """CREATE TABLE current (
        image INTEGER NOT NULL REFERENCES images,
        annotator TEXT NOT NULL,
        answer INTEGER NOT NULL REFERENCES answers,
        PRIMARY KEY (image, annotator)
    ) WITHOUT ROWID""",
    """CREATE TABLE batches (
        number INTEGER PRIMARY KEY,
        at REAL NOT NULL,
        strategy TEXT NOT NULL,
        version INTEGER,
        fingerprint TEXT NOT NULL,
        size INTEGER NOT NULL
    )""",
    """CREATE TABLE picks (
        batch INTEGER NOT NULL REFERENCES batches,
        rank INTEGER NOT NULL,
        image INTEGER NOT NULL REFERENCES images,
        score REAL,
        strategy TEXT NOT NULL,
        predicted TEXT NOT NULL,
        PRIMARY KEY (batch, rank)
    ) WITHOUT ROWID""",
    "CREATE UNIQUE INDEX picks_by_image ON picks (image, batch)",
    """CREATE TABLE trainings (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        version INTEGER UNIQUE,
        status TEXT NOT NULL,
        reason TEXT NOT NULL,
        token TEXT,
        requested_at REAL NOT NULL,
        started_at REAL,
        finished_at REAL,
        stage TEXT NOT NULL DEFAULT '',
        done INTEGER NOT NULL DEFAULT 0,
        total INTEGER NOT NULL DEFAULT 0,
        labels INTEGER NOT NULL DEFAULT 0,
        validation INTEGER NOT NULL DEFAULT 0,
        correct INTEGER NOT NULL DEFAULT 0,
        metrics TEXT NOT NULL DEFAULT '{}',
        seconds REAL,
        weights TEXT,
        fingerprint TEXT NOT NULL DEFAULT '',
        error TEXT,
        batch INTEGER,
        folds INTEGER NOT NULL DEFAULT 0,
        answers INTEGER NOT NULL DEFAULT 0
    )""",
    """CREATE TABLE opinions (
        version INTEGER NOT NULL,
        image INTEGER NOT NULL REFERENCES images,
        source TEXT NOT NULL,
        probabilities TEXT NOT NULL,
        PRIMARY KEY (image, version)
    ) WITHOUT ROWID""",
    *_OF_DECISIONS,
    *_OF_DOORS,
)
"""Statements that make a new project."""

CHANGES: dict[int, tuple[str, ...]] = {
    1: (
        "ALTER TABLE images ADD COLUMN rests_until REAL NOT NULL DEFAULT 0",
        "ALTER TABLE assignments ADD COLUMN browser TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE trainings ADD COLUMN folds INTEGER NOT NULL DEFAULT 0",
        # Files that could not be opened for a moment were taken for damaged ones; those that
        # are damaged are found again.
        "UPDATE images SET unreadable = NULL",
    ),
    2: ("ALTER TABLE answers ADD COLUMN browser TEXT NOT NULL DEFAULT ''",),
    3: (
        "ALTER TABLE images ADD COLUMN content TEXT",
        "ALTER TABLE images ADD COLUMN changed INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE images ADD COLUMN asked_again INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE images ADD COLUMN copy_of INTEGER",
        "ALTER TABLE images ADD COLUMN enough INTEGER NOT NULL DEFAULT 0",
        *_OF_CONTENT,
    ),
    4: _OF_DECISIONS,
    5: (
        "ALTER TABLE trainings ADD COLUMN answers INTEGER NOT NULL DEFAULT 0",
        """UPDATE trainings SET answers = (SELECT ifnull(max(a.number), 0) FROM answers a
            WHERE a.at <= ifnull(trainings.started_at, trainings.requested_at))""",
    ),
    6: ("ALTER TABLE images ADD COLUMN place TEXT NOT NULL DEFAULT ''",),
    7: (
        "ALTER TABLE images ADD COLUMN asked INTEGER",
        "ALTER TABLE answers ADD COLUMN round INTEGER",
        "ALTER TABLE answers ADD COLUMN reason TEXT NOT NULL DEFAULT ''",
        *_OF_DOORS,
    ),
}
"""Statements that bring a project of a version to the next one."""

_WORD = re.compile(r"'[^']*'|\w+|[^\w\s]")
_OBJECTS = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type DESC, name"
_STATISTICS = frozenset({"sqlite_stat1", "sqlite_stat4"})
"""Tables that SQLite itself makes where somebody has it look at the data."""


def find_foreign(connection: sqlite3.Connection) -> str | None:
    """Name a table, trigger or the like that is not ours or not as we make it.

    What a file defines is run by SQLite, and may turn one answer into another. Files of earlier
    versions have the same words in other lines.

    Returns:
        Its kind and name; None if there is nothing but ours.
    """
    with closing(sqlite3.connect(":memory:")) as ours:
        for statement in TABLES:
            ours.execute(statement)
        known = _read_objects(ours)
    found = _read_objects(connection)
    for kind, name in (*found, *known):
        if name not in _STATISTICS and found.get((kind, name)) != known.get((kind, name)):
            return f"{kind} {name!r}"
    return None


def _read_objects(connection: sqlite3.Connection) -> dict[tuple[str, str], tuple[object, ...]]:
    return {
        (kind, name): (table, *_WORD.findall(text or ""))
        for kind, name, table, text in connection.execute(_OBJECTS)
    }
