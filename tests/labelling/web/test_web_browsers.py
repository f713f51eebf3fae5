"""Several browsers under one name: nobody is shown what another is being shown."""

from __future__ import annotations

import pytest
from drawn_shapes import draw_shapes
from label_server import samples_in
from web_pages import TOKEN, is_one_line, open_pages, stranger


@pytest.fixture
def photos(tmp_path):
    return draw_shapes(tmp_path / "photos", 6)


def let_in(client):
    other = stranger(client)
    other.headers["X-Steepest"] = "1"
    assert other.get(f"/?token={TOKEN}").status_code == 200
    return other


def test_two_browsers_under_one_name_are_shown_other_images(photos):
    with open_pages(photos, name="team") as (project, client):
        other = let_in(client)
        seen = []
        for _ in range(3):
            here, there = (samples_in(browser.get("/task").text)[0] for browser in (client, other))
            seen += [here, there]
            client.post("/answer", data={"sample": here, "label": "cat"})
            other.post("/answer", data={"sample": there, "label": "dog"})
        assert len(set(seen)) == 6
        answers = project.queue.history(limit=10)
        assert [(a.annotator, a.kind) for a in answers] == [("team", "label")] * 6


def test_a_browser_is_known_again_when_it_comes_back(photos):
    with open_pages(photos) as (_, client):
        mark, shown = client.cookies["steepest-browser"], samples_in(client.get("/task").text)
        assert client.get(f"/?token={TOKEN}").status_code == 200
        assert client.cookies["steepest-browser"] == mark
        assert samples_in(client.get("/task").text) == shown
        other = let_in(client)
        assert other.cookies["steepest-browser"] != mark


def test_a_mark_that_is_none_of_ours_is_replaced(photos):
    with open_pages(photos) as (_, client):
        other = stranger(client)
        other.cookies["steepest-browser"] = "x" * 2000
        answer = other.get(f"/?token={TOKEN}", follow_redirects=False)
        assert len(answer.cookies["steepest-browser"]) == 16


def test_the_grid_and_undo_belong_to_the_browser_too(photos):
    with open_pages(photos) as (_, client):
        other = let_in(client)
        here = samples_in(client.get("/task").text)[0]
        grid = samples_in(other.get("/grid").text)
        assert here not in grid
        client.post("/answer", data={"sample": here, "label": "cat"})
        assert samples_in(client.post("/undo").text) == [here]
        assert here not in samples_in(other.get("/grid").text)


def test_undo_takes_back_nothing_of_another_browser(photos):
    with open_pages(photos, name="team") as (project, client):
        other, third = let_in(client), let_in(client)
        here, there = (samples_in(browser.get("/task").text)[0] for browser in (client, other))
        client.post("/answer", data={"sample": here, "label": "cat"})
        other.post("/answer", data={"sample": there, "label": "dog"})
        assert samples_in(client.post("/undo").text) == [here]
        assert project.queue.label_of(there).labels == ("dog",)
        for browser in (client, third):
            refused = browser.post("/undo")
            assert refused.status_code == 400
            assert "answered in this browser" in refused.text
            assert is_one_line(refused.text)
        other.post("/skip", data={"sample": here})
        assert samples_in(other.post("/undo").text) == [here]
        assert samples_in(other.post("/undo").text) == [there]


def test_a_change_of_name_gives_back_what_this_browser_held_and_no_more(photos):
    with open_pages(photos) as (project, client):
        other = let_in(client)
        here = samples_in(client.get("/grid").text)
        kept = samples_in(other.get("/task").text)
        client.post("/name", data={"name": "bo"})
        free = {task.sample for task in project.queue.next("cy", 6)}
        assert free == set(here)
        assert samples_in(other.get("/task").text) == kept
