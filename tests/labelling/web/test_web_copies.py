"""Copies of a project that somebody keeps elsewhere, and zip files that systems made."""

from __future__ import annotations

import io
import sqlite3
import tempfile
import zipfile
from contextlib import closing

import pytest
from drawn_shapes import SHAPES, draw_shapes
from web_pages import open_pages

from steepest.labelling.project import Project, Settings
from steepest.labelling.project.store import FILE_NAME


@pytest.fixture
def photos(tmp_path):
    return draw_shapes(tmp_path / "photos", 8, 24)


def test_a_copy_holds_every_answer_although_the_file_alone_does_not(photos, tmp_path):
    with open_pages(photos, classes=SHAPES) as (project, client):
        for state in project.queue.samples():
            project.queue.answer("ann", state.sample, ["star"])
        bare = (project.folder / FILE_NAME).read_bytes()
        copy = client.get("/export/sqlite")
        assert copy.status_code == 200
        assert "labels.sqlite" in copy.headers["content-disposition"]
        expected, said = project.labels(), project.queue.history(limit=100)
        assert len(expected) == 8
        assert not list(project.folder.glob(".steepest-*"))
        assert "/export/sqlite" in client.get("/files").text
    (tmp_path / "bare.sqlite").write_bytes(bare)
    with closing(sqlite3.connect(tmp_path / "bare.sqlite")) as lone, pytest.raises(sqlite3.Error):
        lone.execute("SELECT * FROM answers")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / FILE_NAME).write_bytes(copy.content)
    with Project.open(photos, folder=elsewhere, settings=Settings(), background=False) as project:
        assert project.labels() == expected
        assert project.queue.history(limit=100) == said


def test_asking_for_a_part_of_a_copy_leaves_nothing_behind(photos):
    with open_pages(photos, classes=SHAPES) as (project, client):
        for part in ("bytes=0-3", "bytes=9999999999-", "bytes=5-1"):
            copy = client.get("/export/sqlite", headers={"range": part})
            assert copy.content.startswith(b"SQLite format 3")
            assert not list(project.folder.glob(".steepest-*"))


def test_files_that_systems_put_into_zip_files_are_passed_over(photos):
    with open_pages(photos, classes=SHAPES) as (project, client):
        sample = project.queue.samples()[0].sample
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            for name in ("Thumbs.db", "star/desktop.ini", "__MACOSX/star/x.png", f"star/{sample}"):
                archive.writestr(name, b"never read")
        answer = client.post("/import", files={"file": ("mine.zip", file.getvalue())})
        assert answer.status_code == 200, answer.text
        assert project.labels() == [(sample, ("star",))]


def test_a_class_can_be_renamed_on_the_page(photos):
    with open_pages(photos) as (project, client):
        assert 'hx-post="/rename"' in client.get("/files").text
        answer = client.post("/rename", data={"old": "cat", "new": " wild cat "})
        assert (answer.status_code, project.classes()[0]) == (204, "wild cat")
        assert client.post("/rename", data={"old": "cat", "new": "x"}).status_code == 400
        assert client.post("/rename", data={"old": "dog", "new": "owl"}).status_code == 400


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_labels_can_be_had_when_the_disk_is_full(photos, tmp_path, monkeypatch, kind):
    def refuse(*_, **__):
        raise OSError(28, "No space left on device")

    with open_pages(photos, classes=SHAPES) as (project, client):
        sample = project.queue.samples()[0].sample
        project.queue.answer("ann", sample, ["star"])
        project.export_labels(tmp_path / f"labels.{kind}")
        monkeypatch.setattr(tempfile, "mkdtemp", refuse)
        monkeypatch.setattr(tempfile, "NamedTemporaryFile", refuse)
        given = client.get(f"/export/{kind}")
        assert given.status_code == 200
        assert given.content == (tmp_path / f"labels.{kind}").read_bytes()
        assert f"labels.{kind}" in given.headers["content-disposition"]
