"""The page tells of files that changed since they were labelled, and of copies."""

from __future__ import annotations

import io
import os
import zipfile

import pytest
from drawn_shapes import draw_shapes
from label_server import samples_in
from web_pages import is_one_line, open_pages, stranger

from steepest.labelling.project.scanning import look_closely
from steepest.labelling.web.filters import ending


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
        mark = project.changed_mark()
        assert client.get("/review").text.count(f'"mark": "{mark}"') == 2
        for wrong in ({"then": "burn", "mark": mark}, {"then": then}):
            assert client.post("/changed", data=wrong).status_code == 422
        assert client.get("/changed").status_code == 405
        refused = stranger(client).post("/changed", data={"then": then, "mark": mark})
        assert refused.status_code == 403
        # Nobody decides about files that changed after the page was shown.
        replace(photos / sample)
        project.rescan()
        late = client.post("/changed", data={"then": then, "mark": mark})
        assert (late.status_code, project.progress().changed) == (400, 1)
        assert is_one_line(late.text)
        mark = project.changed_mark()
        assert client.post("/changed", data={"then": then, "mark": mark}).status_code == 204
        assert "changed since" not in client.get("/panel").text
        assert len(project.labels()) == (then == "keep")
        assert "about an earlier file" in client.get("/history").text
        assert [(d.annotator, d.samples, d.detail) for d in project.decisions(sample)] == [
            ("ann", 1, sample)
        ]
        said = "had people asked again about" if then == "ask" else "let the labels hold of"
        for address in ("/history?everybody=true", f"/sample?sample={sample}"):
            assert f"ann {said} {sample}" in client.get(address).text
        if then == "ask":
            assert f'value="{sample}"' in client.get("/task").text
            assert "asked again: the file was replaced" in client.get("/task").text


@pytest.mark.parametrize("view", ["one", "grid", "review"])
@pytest.mark.parametrize("verb", ["/answer", "/skip"])
def test_a_file_that_was_replaced_while_it_was_shown_is_shown_anew(photos, verb, view):
    with open_pages(photos) as (project, client):
        page = client.get("/task").text
        sample, shown = samples_in(page)[0], page.partition('name="shown" value="')[2][:40]
        form = {"sample": sample, "view": view, "shown": shown.partition('"')[0]}
        form |= {"label": "cat"} if verb == "/answer" else {}
        replace(photos / sample)
        said = client.post(verb, data=form)
        assert project.queue.history() == []
        if view == "grid":
            assert said.headers["HX-Redirect"] == "/grid"
        else:
            assert "Not saved" in said.headers["HX-Trigger-After-Settle"]
            assert samples_in(said.text)[0] == sample
            page = said.text
        page = page if view != "grid" else client.get("/task").text
        form["shown"] = page.partition('name="shown" value="')[2].partition('"')[0]
        assert client.post(verb, data=form).status_code in (200, 204)
        assert len(project.queue.history()) == 1


def test_what_is_wrong_besides_is_said_and_a_file_that_is_gone_was_shown(photos):
    with open_pages(photos) as (project, client):
        sample = project.queue.samples()[0].sample
        form = {"sample": sample, "label": "no such", "shown": project.source.mark(sample)}
        assert client.post("/answer", data=form).status_code == 400
        (photos / sample).unlink()
        assert client.post("/answer", data=form | {"label": "cat"}).status_code == 200
        assert len(project.queue.history()) == 1


def test_who_added_or_renamed_a_class_is_known(photos):
    with open_pages(photos) as (project, client):
        for _ in range(2):
            client.post("/classes", data={"name": "fox"})
        client.post("/rename", data={"old": "fox", "new": "red fox"})
        assert [d.kind for d in project.decisions()] == ["rename class", "add class"]
        page = client.get("/history?everybody=true").text
        assert "ann renamed a class: fox → red fox" in page
        assert "Decided for all" not in client.get("/history").text


def test_browsers_are_sent_to_another_picture_when_a_file_was_replaced(photos):
    with open_pages(photos) as (project, client):
        sample = project.queue.samples()[0].sample
        pages = []
        for _ in range(2):
            pages.append(client.get("/images").text.partition(f"sample={sample}&amp;side=256")[2])
            replace(photos / sample)
        first, second = (page.partition('"')[0] for page in pages)
        assert first.startswith("&amp;file=")
        assert first != second


def test_copies_with_different_labels_are_shown_until_they_agree(photos):
    first, second, third = sorted(photos.iterdir())[:3]
    for path in (second, third):
        path.write_bytes(first.read_bytes())
    with open_pages(photos) as (project, client):
        for path, label in ((first, "cat"), (second, "dog")):
            client.post("/answer", data={"sample": path.name, "label": label})
        project.queue.release("ann")
        look_closely(project.store, project.source, project.settings)
        for address in ("/panel", "/review", "/files", "/progress"):
            assert "ifferent labels" in client.get(address).text
        assert second.name in client.get("/images?state=differing").text
        page = client.get(f"/sample?sample={third.name}").text
        assert "No label yet" in page
        assert 'copies of it have <a href="/review">different labels</a>' in page
        client.post("/answer", data={"sample": second.name, "label": "cat"})
        assert "ifferent labels" not in client.get("/review").text


def test_long_names_are_told_by_their_ends():
    assert ending("a/b.png") == "a/b.png"
    assert ending("folder/" * 9 + "b.png") == "…r/folder/folder/folder/folder/b.png"


def test_copies_are_said_to_be_copies(photos):
    first, second = sorted(photos.iterdir())[:2]
    second.write_bytes(first.read_bytes())
    with open_pages(photos) as (project, client):
        project.queue.release("ann")
        look_closely(project.store, project.source, project.settings)
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
