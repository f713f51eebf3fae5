"""A folder of images may come from anybody, with a project in it: opening it does no harm."""

from __future__ import annotations

import io
import os
import re
import sqlite3
import struct
import subprocess
import sys
from contextlib import closing

import pytest
from small_project import CLASSES, make_names, make_photos, open_project

from steepest.errors import DataError, InputError
from steepest.labelling.project import Project, store, trainer
from steepest.labelling.project.pictures import trim
from steepest.labelling.project.schema import CHANGES, VERSION
from steepest.labelling.project.settings import change as change_settings
from steepest.labelling.project.settings import save_settings
from steepest.labelling.project.store import FILE_NAME


@pytest.fixture
def photos(tmp_path):
    return make_names(tmp_path / "photos", 3)


def keep_settings(photos, **settings):
    """Put settings into a project as somebody else might, unchecked."""
    with open_project(photos) as project, project.store.writing() as connection:
        save_settings(connection, change_settings(project.settings, settings))


@pytest.mark.parametrize("name", ["model", "strategy", "weak_strategy"])
def test_code_that_only_the_project_names_is_not_run(name, photos):
    keep_settings(photos, **{name: "subprocess:Popen"})
    with pytest.raises(InputError, match=f"'subprocess:Popen' run as its {name}.* --set {name}="):
        Project.open(photos, background=False)


def test_code_that_is_named_anew_is_the_users_own(photos, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_net.py").write_text("def net(classes): ...\n")
    for _ in range(2):
        with open_project(photos, model="my_net:net") as project:
            assert project.settings.model == "my_net:net"
    with pytest.raises(InputError, match="my_net:net"):
        Project.open(photos, background=False)


@pytest.mark.parametrize(
    "name",
    [
        *("thumbnails", "training.log", "project.lock", "labels.sqlite", "models"),
        *("thumbnails/00", "thumbnails/00/0.jpg", "models/version-1.safetensors", "a/b/c/d"),
    ],
)
def test_nothing_in_a_project_may_lead_elsewhere(name, photos, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("years of work")
    link = photos / ".steepest" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(precious)
    with pytest.raises(InputError, match=f"{name} is a link"):
        Project.open(photos, CLASSES, background=False)
    assert precious.read_text() == "years of work"


def test_files_that_are_no_pictures_of_ours_are_never_trimmed(tmp_path):
    documents = tmp_path / "documents"
    documents.mkdir()
    for name in ("thesis.txt", "holiday.jpg", f"{'0' * 32}.jpg.bak"):
        (documents / name).write_bytes(bytes(1000))
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "00").symlink_to(documents)
    (documents / f"{'0' * 32}.jpg").write_bytes(bytes(1000))
    for folder, left in ((cache, 4), (cache / "00", 4), (documents, 3)):
        trim(folder, 0)
        assert len(os.listdir(documents)) == left  # noqa: PTH208 - nothing but names


def test_a_pipe_in_a_project_is_not_waited_for(photos):
    (photos / ".steepest" / "thumbnails").mkdir(parents=True)
    os.mkfifo(photos / ".steepest" / "thumbnails" / "0.jpg")
    with pytest.raises(InputError, match=r"0\.jpg is no plain file"):
        Project.open(photos, CLASSES, background=False)


def test_a_project_that_is_a_link_is_followed_only_where_it_was_named(photos, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (photos / ".steepest").symlink_to(elsewhere)
    with pytest.raises(InputError, match=r"\.steepest is a link"):
        open_project(photos)
    assert not list(elsewhere.iterdir())
    open_project(photos, folder=photos / ".steepest").close()


def test_pictures_that_came_with_a_project_are_not_shown(tmp_path):
    photos = make_photos(tmp_path / "photos", 2)
    with open_project(photos) as project:
        made = project.pictures.thumbnail("red-000.png").data
    planted = list((photos / ".steepest" / "thumbnails").rglob("*.jpg"))
    assert planted
    for path in planted:
        path.write_bytes(b"another picture")
    with open_project(photos) as project:
        assert project.pictures.thumbnail("red-000.png").data == made
        assert project.pictures.thumbnail("red-000.png").data == made
    assert not any(path.exists() for path in planted)


def change_file(photos, *statements):
    open_project(photos).close()
    with closing(sqlite3.connect(photos / ".steepest" / FILE_NAME)) as file:
        for statement in statements:
            file.execute(statement)
        file.commit()


@pytest.mark.parametrize(
    ("named", "statement"),
    [
        (
            "trigger 'helpful'",
            """CREATE TRIGGER helpful AFTER INSERT ON current
            BEGIN UPDATE images SET labels = '["blue"]'; END""",
        ),
        ("view 'seen'", "CREATE VIEW seen AS SELECT * FROM images"),
        ("table 'notes'", "CREATE TABLE notes (x)"),
        ("index 'more'", "CREATE UNIQUE INDEX more ON answers (image) WHERE kind = 'undo'"),
        ("trigger 'answers_stay'", "DROP TRIGGER answers_stay"),
        ("table 'classes'", "ALTER TABLE classes ADD COLUMN x DEFAULT 'y'"),
        ("trigger 'a\\x1b[2Jb'", 'CREATE TRIGGER "a\x1b[2Jb" DELETE ON picks BEGIN SELECT 1; END'),
    ],
)
def test_a_file_that_would_run_what_is_not_ours_is_refused(named, statement, photos):
    change_file(photos, statement)
    with pytest.raises(DataError, match=re.escape(f"its {named} is not what steepest makes")):
        open_project(photos)


def test_what_a_trigger_of_theirs_does_during_an_upgrade_is_undone(photos, monkeypatch):
    change_file(
        photos,
        """CREATE TRIGGER helpful UPDATE ON images
            BEGIN UPDATE classes SET name = 'cat' WHERE name = 'red'; END""",
    )
    monkeypatch.setattr(store, "VERSION", VERSION + 1)
    monkeypatch.setitem(CHANGES, VERSION, ("UPDATE images SET seen = seen",))
    with pytest.raises(DataError, match="trigger 'helpful'"):
        open_project(photos)
    with closing(sqlite3.connect(photos / ".steepest" / FILE_NAME)) as file:
        assert file.execute("SELECT name FROM classes").fetchone() == ("red",)
        assert file.execute("PRAGMA user_version").fetchone() == (VERSION,)


def test_a_file_that_somebody_has_analysed_is_opened(photos):
    change_file(photos, "INSERT INTO classes VALUES (7, 'owl')", "ANALYZE")
    with open_project(photos) as project:
        assert "owl" in project.classes()


def test_a_journal_that_names_another_file_as_done_with_does_not_remove_it(photos, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("years of work\0")
    open_project(photos).close()
    file = photos / ".steepest" / FILE_NAME
    name, mark = str(precious).encode(), bytes.fromhex("d9d505f920a163d7")
    head = struct.pack(">8s5I", mark, 0, 0, file.stat().st_size // 4096, 512, 4096)
    # What SQLite writes at the end of a journal that belongs to a change of several files.
    tail = struct.pack(">I", 0x4000_0000 // 4096 + 1) + name
    tail += struct.pack(">II8s", len(name), sum(name), mark)
    with closing(sqlite3.connect(file)) as ours:
        ours.execute("PRAGMA journal_mode = DELETE")
    (photos / ".steepest" / f"{FILE_NAME}-journal").write_bytes(head.ljust(512, b"\0") + tail)
    with pytest.raises(DataError, match=r"labels\.sqlite-journal is not of steepest"):
        open_project(photos)
    assert precious.exists()


def test_modules_of_the_current_directory_are_not_imported_for_a_training(
    photos, tmp_path, monkeypatch
):
    asked = []

    class Noted:
        stdout, pid, returncode = None, 0, 1

        def __init__(self, command, **_):
            self.stdin = io.BytesIO()
            asked.append(command)

        def poll(self):
            return 1

        def wait(self, timeout=None):
            del timeout
            return 0

    monkeypatch.setattr(trainer.subprocess, "Popen", Noted)
    with open_project(photos, background=True) as project:
        project.trainer.request()
        assert project.trainer.wait(10)
    monkeypatch.undo()
    (tmp_path / "steepest").mkdir()
    (tmp_path / "steepest" / "__init__.py").write_text("raise SystemExit('code of the folder')\n")
    as_started = asked[0][: asked[0].index("-m")]
    done = subprocess.run(
        [*as_started, "-c", "import steepest; print(steepest.__file__)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert str(tmp_path) not in done.stdout
    assert as_started[0] == sys.executable
