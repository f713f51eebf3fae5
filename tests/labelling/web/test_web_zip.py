"""A zip file of folders, while people go on answering."""

from __future__ import annotations

import csv
import errno
import io
import zipfile
from pathlib import Path

import pytest
from drawn_shapes import draw_shapes
from web_pages import open_pages

from steepest.errors import SkippedFilesWarning
from steepest.labelling.project import Project
from steepest.labelling.web import folder_zip
from steepest.labelling.web.folder_zip import stream_folders


def test_an_undo_during_a_download_drops_no_other_image(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_zip, "_AT_ONCE", 2, raising=False)
    photos = draw_shapes(tmp_path / "photos", 6)
    with open_pages(photos) as (project, _):
        samples = [state.sample for state in project.queue.samples()]
        for sample in reversed(samples):
            project.queue.answer("ann", sample, ["cat"])
        pieces = []
        for piece in stream_folders(project):
            if not pieces:
                assert project.queue.undo("ann").sample == samples[0]
            pieces.append(piece)
        with zipfile.ZipFile(io.BytesIO(b"".join(pieces))) as archive:
            assert archive.namelist() == [f"cat/{sample}" for sample in samples]


class Failing(io.BytesIO):
    """A file whose disk fails after the first piece."""

    def read(self, size=-1):
        if self.tell():
            raise OSError(errno.EIO, "Input/output error")
        return super().read(size)


@pytest.fixture
def failing(tmp_path, monkeypatch):
    """Make images, one of which can be read in part only; return their folder and its name."""
    photos = draw_shapes(tmp_path / "photos", 4)
    broken = sorted(path.name for path in photos.iterdir())[1]
    opened = Path.open

    def open_(path, *arguments, **more):
        if path.name == broken and arguments == ("rb",):
            return Failing(b"A" * 500)
        return opened(path, *arguments, **more)

    monkeypatch.setattr(folder_zip, "_CHUNK_BYTES", 100)
    monkeypatch.setattr(Path, "open", open_)
    return photos, broken


def label_all(project):
    samples = [state.sample for state in project.queue.samples()]
    for sample in samples:
        project.queue.answer("ann", sample, ["cat"])
    return samples


def test_an_image_that_fails_half_way_is_left_out_and_listed(failing):
    photos, broken = failing
    with open_pages(photos) as (project, client):
        whole = [sample for sample in label_all(project) if sample != broken]
        with pytest.warns(SkippedFilesWarning, match="1 image is not in the zip file"):
            given = client.get("/export/zip").content
    with zipfile.ZipFile(io.BytesIO(given)) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == [*(f"cat/{sample}" for sample in whole), "left-out.csv"]
        for sample in whole:
            assert archive.read(f"cat/{sample}") == (photos / sample).read_bytes()
        rows = list(csv.DictReader(archive.read("left-out.csv").decode().splitlines()))
    assert rows == [{"id": broken, "label": "cat", "reason": "Input/output error"}]
    assert b"AAAA" not in given


def test_a_zip_file_with_a_list_of_what_is_not_in_it_comes_in_again(failing, tmp_path):
    photos, broken = failing
    with open_pages(photos) as (project, client):
        label_all(project)
        with pytest.warns(SkippedFilesWarning):
            given = client.get("/export/zip").content
    with Project.open(
        photos, ["cat", "dog"], folder=tmp_path / "second", background=False
    ) as project:
        folder_zip.write_as_lines(io.BytesIO(given), tmp_path / "labels.jsonl")
        assert project.import_labels(tmp_path / "labels.jsonl").added == 3
        assert project.queue.label_of(broken).labels is None


def test_large_images_go_through_a_file_that_is_not_left_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_zip, "_MOST_IN_MEMORY_BYTES", 10)
    photos = draw_shapes(tmp_path / "photos", 3)
    with open_pages(photos) as (project, client):
        samples = label_all(project)
        before = set(project.folder.iterdir())
        with zipfile.ZipFile(io.BytesIO(client.get("/export/zip").content)) as archive:
            assert archive.namelist() == [f"cat/{sample}" for sample in samples]
            assert archive.read(f"cat/{samples[0]}") == (photos / samples[0]).read_bytes()
        assert set(project.folder.iterdir()) == before
