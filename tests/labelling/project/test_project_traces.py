"""A project whose labels are lost does not begin anew in silence."""

from __future__ import annotations

import re
import shutil
import sqlite3

import pytest
from small_project import make_names, make_photos, open_project

from steepest.cli.main import main
from steepest.errors import DataError
from steepest.labelling.project.store import FILE_NAME

LEFT = (
    *("thumbnails/ab/0.jpg", "models/version-0003.safetensors", "training.log", "token"),
    *("labels.csv", "labels-version-5.sqlite", "labels (1).sqlite", "labels.sqlite-wal"),
)


@pytest.fixture
def photos(tmp_path):
    return make_names(tmp_path / "photos", 3)


@pytest.mark.parametrize("emptied", [False, True])
@pytest.mark.parametrize("left", LEFT)
def test_what_an_earlier_project_left_keeps_a_new_one_from_beginning(photos, left, emptied):
    folder = photos / ".steepest"
    (folder / left).parent.mkdir(parents=True)
    (folder / left).write_bytes(b"left")
    if emptied:
        (folder / FILE_NAME).touch()
    what = "is empty" if emptied else "is gone"
    with pytest.raises(DataError, match=re.escape(f"{what}, but a project was here ({left}): put")):
        open_project(photos)
    assert (folder / left).read_bytes() == b"left"
    assert (folder / FILE_NAME).exists() is emptied


def test_the_command_says_so_too_and_names_a_copy(photos, capsys):
    with open_project(photos) as project:
        project.queue.answer("ann", "red-000.png", ["red"])
        project.store.copy_to(project.folder / "labels-friday.sqlite")
    file = photos / ".steepest" / FILE_NAME
    file.unlink()
    for words in ([], ["--classes", "red,green"]):
        assert main(["label", str(photos), "--no-browser", *words]) == 2
        assert "labels-friday.sqlite back as labels.sqlite" in capsys.readouterr().err
        assert not file.exists()
    (photos / ".steepest" / "labels-friday.sqlite").rename(file)
    with open_project(photos) as project:
        assert project.progress().labelled == 1


def test_a_file_without_tables_is_empty_too(photos, tmp_path):
    with open_project(make_photos(tmp_path / "others", 3)) as project:
        project.pictures.thumbnail("red-000.png", 64)
        thumbnails = project.folder / "thumbnails"
        shutil.copytree(thumbnails, photos / ".steepest" / "thumbnails")

    with sqlite3.connect(photos / ".steepest" / FILE_NAME) as file:
        file.execute("CREATE TABLE mine (number INTEGER)")
        file.execute("DROP TABLE mine")
    file.close()
    with pytest.raises(DataError, match="thumbnails"):
        open_project(photos)


def test_a_first_start_that_was_killed_early_begins_anew(photos):
    folder = photos / ".steepest"
    folder.mkdir()
    for name in (FILE_NAME, "labels.sqlite-shm", "project.lock", "photos.txt"):
        (folder / name).touch()
    (folder / "notes.txt").write_text("of the user's own")
    open_project(photos).close()
    open_project(photos).close()
