"""A zip file of folders, while people go on answering."""

from __future__ import annotations

import io
import zipfile

from drawn_shapes import draw_shapes
from web_pages import open_pages

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
