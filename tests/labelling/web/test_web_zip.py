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
from steepest.labelling.web.folder_zip import read_folders, stream_folders


def test_an_undo_during_a_download_drops_no_other_image(tmp_path):
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
        report = project.import_given(lambda names: read_folders(io.BytesIO(given), "a.zip", names))
        assert report.added == 3
        assert project.queue.label_of(broken).labels is None


def zip_of(*names):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, b"never read")
    return file.getvalue()


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["wolf/{}"], "mine.zip, wolf/{}: unknown class 'wolf'"),
        (["cat/x.png", "dog/y.png"], "mine.zip, cat/x.png, and 1 more (dog/y.png): no sample"),
        (["cat/{}", "dog/{}"], "mine.zip, dog/{}: '{}' has another label in mine.zip, cat/{}"),
        (["{}"], "mine.zip, {}: it is in no folder"),
        (["notes.txt"], "mine.zip: no sample in the folders"),
    ],
)
def test_a_mistake_in_a_zip_file_names_the_file_in_it(tmp_path, names, said):
    photos = draw_shapes(tmp_path / "photos", 2)
    with open_pages(photos) as (project, client):
        sample = project.queue.samples()[0].sample
        data = zip_of(*(name.format(sample) for name in names))
        answer = client.post("/import", files={"file": ("mine.zip", data)})
    assert answer.status_code == 400
    assert answer.text.startswith(said.replace("{}", sample))
    assert "line" not in answer.text


def test_an_image_in_two_folders_has_two_classes_where_that_is_allowed(tmp_path):
    photos = draw_shapes(tmp_path / "photos", 2)
    with open_pages(photos, multi_label=True) as (project, client):
        sample = project.queue.samples()[0].sample
        data = zip_of(f"cat/{sample}", f"owl/{sample}", f"__MACOSX/{sample}", f"dog/.{sample}")
        assert "1 added" in client.post("/import", files={"file": ("mine.zip", data)}).text
        assert project.queue.label_of(sample).labels == ("cat", "owl")


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
