"""Projects of an earlier version are brought up to date when they are opened."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from small_project import make_names, open_project, take_out_doors

from steepest.errors import DataError
from steepest.labelling.project.schema import VERSION
from steepest.labelling.project.store import FILE_NAME, Store


@pytest.fixture
def old(tmp_path):
    """Make a project as the first version left it, with an image that was taken for damaged."""
    photos = make_names(tmp_path / "photos", 4)
    with open_project(photos) as project:
        project.queue.answer("ann", "red-000.png", ["red"])
        project.queue.next("ann")
    file = sqlite3.connect(photos / ".steepest" / FILE_NAME)
    take_out_doors(file)
    for index in ("by_size", "by_content", "changed", "copied", "asked_again"):
        file.execute(f"DROP INDEX images_{index}")
    for table, column in (
        *(("images", name) for name in ("content", "changed", "asked_again", "copy_of", "enough")),
        ("images", "place"),
        ("images", "rests_until"),
        ("assignments", "browser"),
        ("trainings", "folds"),
        ("trainings", "answers"),
        ("answers", "browser"),
    ):
        file.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
    for table in ("decided", "decisions"):
        file.execute(f"DROP TABLE {table}")
    file.execute("UPDATE images SET unreadable = 'x', open = 0 WHERE id = 'blue-002.png'")
    file.execute("PRAGMA user_version = 1")
    file.commit()
    file.close()
    return photos


def test_an_old_project_goes_on_with_all_its_answers(old):
    with open_project(old) as project:
        assert project.queue.label_of("red-000.png").labels == ("red",)
        assert len(project.queue.next("ann", 9)) == 3
        assert project.progress().unreadable == 0
        project.trainer.request(folds=3)
        assert project.queue.undo("ann", "a browser").sample == "red-000.png"


def test_the_columns_of_old_and_new_projects_stand_in_the_same_order(old, tmp_path):
    new = make_names(tmp_path / "new", 1)
    found = []
    for photos in (old, new):
        open_project(photos).close()
        file = sqlite3.connect(photos / ".steepest" / FILE_NAME)
        assert file.execute("PRAGMA user_version").fetchone() == (VERSION,)
        tables = ("images", "assignments", "trainings", "answers", "decisions", "decided")
        tables += ("project", "questions", "rounds")
        indexes = "SELECT name, sql FROM sqlite_schema WHERE type = 'index' ORDER BY name"
        columns = [file.execute(f"PRAGMA table_info({table})").fetchall() for table in tables]
        named = [[(row[1], row[2]) for row in rows] for rows in columns]
        found.append([named, file.execute(indexes).fetchall()])
        file.close()
    assert found[0] == found[1]


def backups(photos):
    return sorted(path.name for path in (photos / ".steepest").glob("labels-*"))


def test_an_upgrade_keeps_a_copy_that_earlier_programs_can_open(old):
    folder = old / ".steepest"
    with open_project(old) as project:
        project.queue.answer("ann", "green-001.png", ["green"])
    assert backups(old) == ["labels-version-1.sqlite"]
    with closing(sqlite3.connect(folder / "labels-version-1.sqlite")) as copy:
        assert copy.execute("PRAGMA user_version").fetchone() == (1,)
        assert copy.execute("SELECT count(*) FROM answers").fetchone() == (1,)
        assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    open_project(old).close()
    assert backups(old) == ["labels-version-1.sqlite"]
    (folder / FILE_NAME).write_bytes((folder / "labels-version-1.sqlite").read_bytes())
    with open_project(old) as project:
        assert project.labels() == [("red-000.png", ("red",))]
    assert backups(old) == ["labels-version-1-2.sqlite", "labels-version-1.sqlite"]


def test_without_room_for_a_copy_nothing_is_upgraded(old, monkeypatch):
    def fail(store, path):
        raise DataError("no room")

    monkeypatch.setattr(Store, "copy_to", fail)
    with pytest.raises(DataError, match="no room"):
        open_project(old)
    with closing(sqlite3.connect(old / ".steepest" / FILE_NAME)) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (1,)
