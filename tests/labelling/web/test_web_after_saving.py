"""An answer that is on disk is never told as lost, whatever goes wrong after it."""

from __future__ import annotations

import pytest
from drawn_shapes import draw_shapes
from label_server import samples_in
from web_pages import open_pages

from steepest.errors import DataError


@pytest.fixture
def photos(tmp_path):
    return draw_shapes(tmp_path / "photos", 6)


def break_down(*args, **options):
    raise DataError("labels.sqlite: disk I/O <error>; make room there")


@pytest.mark.parametrize(("verb", "form"), [("answer", {"label": "cat"}), ("skip", {})])
def test_an_answer_whose_next_image_cannot_be_shown_is_said_to_be_saved(photos, verb, form):
    with open_pages(photos) as (project, client):
        sample = samples_in(client.get("/task").text)[0]
        project.queue.next = break_down
        page = client.post(f"/{verb}", data={"sample": sample, **form})
        assert page.status_code == 200
        assert f"Saved: {sample}, but the next image cannot be shown" in page.text
        assert "disk I/O &lt;error&gt;" in page.text
        assert 'hx-get="/task"' in page.text
        assert page.headers["hx-trigger"] == '{"answered": true}'
        del project.queue.next
        assert len(project.queue.history("ann")) == 1
        assert samples_in(client.get("/task").text) not in ([], [sample])


def test_an_undo_whose_image_cannot_be_shown_is_said_to_be_done(photos):
    with open_pages(photos) as (project, client):
        sample = samples_in(client.get("/task").text)[0]
        client.post("/answer", data={"sample": sample, "label": "cat"})
        project.queue.next = break_down
        page = client.post("/undo")
        assert page.status_code == 200
        assert f"Taken back: {sample}, but it cannot be shown" in page.text
        assert project.queue.history("ann") == []


def test_an_answer_in_the_grid_stays_a_cell_that_is_done(photos):
    with open_pages(photos) as (project, client):
        sample = samples_in(client.get("/grid").text)[0]
        client.app._app.state.context.show = break_down
        page = client.post("/answer", data={"sample": sample, "label": "cat", "view": "grid"})
        assert page.status_code == 200
        assert 'class="cell done"' in page.text
        assert project.queue.label_of(sample).labels == ("cat",)


def test_an_import_whose_page_cannot_be_shown_is_said_to_be_taken_in(photos):
    with open_pages(photos) as (project, client):
        sample = project.queue.samples()[0].sample
        client.app._app.state.context.show = break_down
        table = f"id,label\n{sample},cat\n".encode()
        page = client.post("/import", files={"file": ("mine.csv", table)})
        assert page.status_code == 200
        assert "Imported: 1 label of mine.csv, but" in page.text
        assert project.progress().labelled == 1


def test_an_answer_counts_also_when_no_training_can_be_asked_for(photos):
    with open_pages(photos) as (project, client):
        sample = samples_in(client.get("/task").text)[0]
        project.queue._after_answer = break_down
        page = client.post("/answer", data={"sample": sample, "label": "cat"})
        assert page.status_code == 200
        assert samples_in(page.text)
        assert project.queue.label_of(sample).labels == ("cat",)


def test_an_answer_that_was_not_saved_is_still_an_error(photos):
    with open_pages(photos) as (project, client):
        project.queue.answer = break_down
        sample = samples_in(client.get("/task").text)[0]
        page = client.post("/answer", data={"sample": sample, "label": "cat"})
        assert page.status_code == 500
        assert "Saved" not in page.text


def test_a_trainer_that_cannot_ask_for_a_training_lets_others_go_on(photos, monkeypatch):
    with open_pages(photos) as (project, _):
        monkeypatch.setattr(project.trainer, "_thread", object())
        monkeypatch.setattr(project.trainer, "request", break_down)
        project.trainer.consider("labels were imported")
        project.trainer.consider()
        monkeypatch.setattr(project.trainer, "_thread", None)
