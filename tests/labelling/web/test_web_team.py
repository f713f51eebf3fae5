"""What a team sees of each other: who holds images, and what the next training waits for."""

from __future__ import annotations

import pytest
from drawn_shapes import draw_shapes
from label_server import samples_in
from test_web_labelling import pick_all
from web_pages import TOKEN, open_pages, stranger

from steepest.labelling.project.trainings import claim, fail


@pytest.fixture
def photos(tmp_path):
    return draw_shapes(tmp_path / "photos", 8)


def let_in(client, name):
    other = stranger(client)
    other.headers["X-Steepest"] = "1"
    assert other.get(f"/?token={TOKEN}").status_code == 200
    other.post("/name", data={"name": name})
    return other


def test_the_page_says_after_how_many_answers_the_next_training_begins(photos):
    with open_pages(photos) as (project, client):
        assert "next training" not in client.get("/panel").text
        pick_all(project)
        for left in ("4 more answers", "3 more answers", "2 more answers", "1 more answer"):
            for page in ("/panel", "/figures"):
                assert f"begins after {left}, whoever" in client.get(page).text
            sample = samples_in(client.get("/task").text)[0]
            client.post("/answer", data={"sample": sample, "label": "cat"})
        assert "4/4 answers" in client.get("/panel").text
        assert "is about to begin" in client.get("/panel").text
        number = project.trainer.request()
        assert "whoever gives them" not in client.get("/panel").text
        with project.store.writing() as connection:
            claim(connection, "token", 0.0)
            fail(connection, number, "no room", 1.0)
        assert "begins after 4 more answers" in client.get("/panel").text


def test_who_finds_nothing_is_told_who_holds_the_rest(photos):
    with open_pages(photos) as (project, client):
        bo, cy = let_in(client, "bo"), let_in(client, "cy")
        project.queue.release("ann")
        assert len(samples_in(bo.get("/grid").text)) == 8
        for page in ("/task", "/grid"):
            assert "Shown at the moment: 8 to bo." in cy.get(page).text
        assert "Shown at the moment" not in bo.get("/grid").text


def test_a_grid_that_nobody_moves_in_gives_its_images_back(photos):
    with open_pages(photos, lease_seconds=600.0) as (project, client):
        bo = let_in(client, "bo")
        project.queue.release("ann")
        grid = samples_in(bo.get("/grid").text)
        with project.store.writing() as connection:
            until = connection.execute("SELECT min(expires) - min(since) FROM assignments")
            assert until.fetchone()[0] == pytest.approx(120.0)
            connection.execute("UPDATE assignments SET expires = 0 WHERE turn > 2")
        assert bo.post("/hold", data={"sample": grid[:4]}).json() == []
        ann = [samples_in(client.get("/grid").text), samples_in(bo.get("/grid").text)]
        assert ann == [grid[4:], grid[:4]]
        assert bo.post("/hold", data={"sample": grid}).json() == grid[4:]
        assert bo.post("/hold").json() == []
        many = {"sample": [f"{number}.png" for number in range(101)]}
        assert bo.post("/hold", data=many).status_code == 422
