"""A project as JSON lines: out and in gives the same, and other files give nothing."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path

import pytest

from steepest.errors import InputError
from steepest.labelling.exchange.folder import LoopFolder
from steepest.labelling.project import Project
from steepest.labelling.project.archive import read_archive, write_archive
from steepest.labelling.project.opening import open_pool

OLD = Path(__file__).parent.parent / "old_folders.zip"
LOOPS = ("sheets", "several", "masks", "pictures", "numbers", "texts", "lists", "odd", "odd2")


@pytest.fixture
def old(tmp_path):
    with zipfile.ZipFile(OLD) as archive:
        archive.extractall(tmp_path)
    return tmp_path


def rows_of(folder):
    """Return all rows of all tables but who is looking at what."""
    with closing(sqlite3.connect(folder / "labels.sqlite")) as file:
        tables = file.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        return {
            name: file.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall()
            for (name,) in tables
            if name != "assignments" and not name.startswith("sqlite_stat")
        }


@pytest.mark.parametrize("name", [*LOOPS, "photos/.steepest"])
def test_out_and_in_gives_the_same_project(old, name):
    folder, file = old / name, old / "out.jsonl"
    (folder / "models").mkdir(exist_ok=True)
    (folder / "models" / "version-0001.safetensors").write_bytes(b"weights\0")
    counts = write_archive(folder, file)
    assert read_archive(file, old / "back") == counts
    assert rows_of(old / "back") == rows_of(folder)
    write_archive(old / "back", old / "again.jsonl")
    assert (old / "again.jsonl").read_bytes() == file.read_bytes()
    for path in (*folder.glob("maps/*"), *folder.glob("models/*"), *folder.glob("samples.json")):
        assert (old / "back" / path.relative_to(folder)).read_bytes() == path.read_bytes()
    with open_pool(folder) as one, open_pool(old / "back") as other:
        assert list(one.events()) == list(other.events())
        one.unlabel(one.labelled()[0][:1], cycle=9, who="eve")
        other.unlabel(other.labelled()[0][:1], cycle=9, who="eve")
        assert one.counts() == other.counts()


def test_lines_can_be_read_by_people_and_weights_left_out(old):
    folder, file = old / "pictures", old / "out.jsonl"
    (folder / "models").mkdir()
    (folder / "models" / "version-0001.safetensors").write_bytes(b"weights")
    assert write_archive(folder, file, weights=False)["files"] == 0
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    answers = [line for line in lines if line.get("table") == "answers"]
    assert {(line["annotator"], line["kind"]) for line in answers} >= {
        ("label-studio:eve@example.org", "label"),
        ("label-studio:deleted", "undo"),
    }


def test_all_doors_go_on_with_what_was_read(old):
    write_archive(old / "pictures", old / "out.jsonl")
    read_archive(old / "out.jsonl", old / "back")
    assert LoopFolder.open(old / "back").rounds() == LoopFolder.open(old / "pictures").rounds()
    with Project.open(old / "photos", folder=old / "back", background=False) as project:
        assert project.progress().labelled == 1
        assert len(project.queue.next("ann", 9)) == 8


BAD = {
    "": "does not begin",
    "{}": "does not begin",
    "[": "line 1: is no JSON",
    '{"steepest project": 99}': "does not begin as a project of this version",
    "HEAD\n3": "line 2: is no line",
    'HEAD\n{"table": "sqlite_schema"}': "line 2: table 'sqlite_schema' is none",
    'HEAD\n{"table": "classes", "number": 0}': "line 2: has other columns than number, name",
    'HEAD\n{"table": "classes", "number": 0, "name": [1]}': "line 2",
    'HEAD\n{"table": "classes", "number": 0, "name": null}': "line 2: NOT NULL",
    'HEAD\n{"table": "current", "image": 1, "annotator": "a", "answer": 1}': "names a",
    'HEAD\n{"file": "../evil", "base64": ""}': "line 2: file '../evil' is none",
    'HEAD\n{"file": "labels.sqlite", "base64": ""}': "line 2: file",
    'HEAD\n{"file": "samples.json", "base64": "!"}': "line 2: file 'samples.json' is damaged",
}


@pytest.mark.parametrize("content", BAD)
def test_other_files_are_one_line_and_make_nothing(tmp_path, content):
    file = tmp_path / "in.jsonl"
    file.write_text(content.replace("HEAD", '{"steepest project": 8}'))
    with pytest.raises(InputError, match=BAD[content]) as error:
        read_archive(file, tmp_path / "back")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "back" / "labels.sqlite").exists()
    assert not list((tmp_path / "back").glob("*.json"))


def test_a_folder_that_holds_something_is_left(old):
    write_archive(old / "sheets", old / "out.jsonl")
    with pytest.raises(InputError, match="is there already"):
        read_archive(old / "out.jsonl", old / "several")
    with pytest.raises(InputError, match="no labelling project"):
        write_archive(old / "nowhere", old / "out.jsonl")
    with pytest.raises(InputError, match="cannot be read"):
        read_archive(old / "nothing.jsonl", old / "new")
