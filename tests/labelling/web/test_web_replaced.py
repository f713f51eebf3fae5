"""The page tells of files that changed since they were labelled, and of copies."""

from __future__ import annotations

import io
import os
import zipfile

import pytest
from drawn_shapes import draw_shapes
from web_pages import open_pages

from steepest.labelling.project.looking import look_closely


@pytest.fixture
def photos(tmp_path):
    return draw_shapes(tmp_path / "photos", 4)


def replace(path):
    path.write_bytes(path.read_bytes() + b"x")
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 10**9))


@pytest.mark.parametrize("then", ["ask", "keep"])
def test_a_team_is_told_of_changed_files_and_decides_about_them(photos, then):
    with open_pages(photos) as (project, client):
        sample = project.queue.samples()[0].sample
        client.post("/answer", data={"sample": sample, "label": "cat"})
        assert "changed since" not in client.get("/panel").text + client.get("/review").text
        replace(photos / sample)
        project.rescan()
        for address in ("/panel", "/review", "/files"):
            assert "changed since" in client.get(address).text
        assert sample in client.get("/images?state=changed").text
        assert client.post("/changed", data={"then": "burn"}).status_code == 422
        assert client.post("/changed", data={"then": then}).status_code == 204
        assert "changed since" not in client.get("/panel").text
        assert len(project.labels()) == (then == "keep")
        page = client.get("/history").text
        assert sample in page
        assert ("about an earlier file" in page) == (then == "ask")
        if then == "ask":
            project.queue.release("ann")
            assert f'value="{sample}"' in client.get("/task").text


def test_copies_are_said_to_be_copies(photos):
    first, second = sorted(photos.iterdir())[:2]
    second.write_bytes(first.read_bytes())
    with open_pages(photos) as (project, client):
        project.queue.release("ann")
        look_closely(project.store, photos, project.settings)
        assert f"copy of {first.name}" in client.get("/images?state=copies").text
        client.post("/answer", data={"sample": first.name, "label": "cat"})
        assert f"{second.name},cat,{first.name}" in client.get("/export/csv").text
        assert "Labelled <strong>cat</strong>" in client.get(f"/sample?sample={second.name}").text
        with zipfile.ZipFile(io.BytesIO(client.get("/export/zip").content)) as archive:
            assert f"cat/{second.name}" in archive.namelist()
            assert f"{second.name},{first.name}" in archive.read("copies.csv").decode()


def test_a_sheet_that_is_half_filled_in_is_taken(photos):
    with open_pages(photos) as (project, client):
        ids = [state.sample for state in project.queue.samples()]
        rows = "\n".join(f"{sample}\t{'cat' * (n == 0)}" for n, sample in enumerate(ids))
        file = {"file": ("sheet.tsv", f"id\tlabel\n{rows}\n".encode())}
        said = client.post("/import", files=file).text
        assert "1 added, 0 there already, 3 rows have no label yet" in said
