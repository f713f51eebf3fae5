"""What the page says when images or the whole folder are gone, or no model can be trained."""

from __future__ import annotations

import pytest
from drawn_shapes import draw_shapes
from label_server import samples_in
from web_pages import open_pages


@pytest.fixture
def photos(tmp_path):
    return draw_shapes(tmp_path / "photos", 6)


def test_files_that_are_gone_are_counted_where_nothing_waits(photos):
    with open_pages(photos) as (project, client):
        samples = [state.sample for state in project.queue.samples()]
        for sample in samples[:2]:
            (photos / sample).unlink()
            assert client.get("/picture", params={"sample": sample}).status_code == 422
        for sample in samples[2:]:
            client.post("/answer", data={"sample": sample, "label": "cat"})
        for address in ("/task", "/grid"):
            page = client.get(address).text
            assert "Nothing waits for you" in page
            assert "4 of 6 images are labelled, 2 are gone." in page


def test_a_folder_that_is_away_is_said_instead_of_asking_about_its_images(photos):
    with open_pages(photos) as (project, client):
        asked = samples_in(client.get("/task").text)
        elsewhere = photos.rename(photos.with_name("elsewhere"))
        assert client.get("/picture", params={"sample": asked[0]}).status_code == 422
        for address in ("/task", "/grid"):
            page = client.get(address).text
            assert "The images are away" in page
            assert samples_in(page) == []
        elsewhere.rename(photos)
        assert samples_in(client.get("/task").text) == asked
        assert project.progress().missing == 0


def test_a_model_is_named_also_after_a_training_that_failed(photos):
    with open_pages(photos) as (project, client):
        with project.store.writing() as connection:
            connection.execute(
                "INSERT INTO trainings (version, status, reason, requested_at, finished_at) "
                "VALUES (1, 'done', '', 1, 2)"
            )
            connection.execute(
                "INSERT INTO trainings (status, reason, requested_at, finished_at, error) "
                "VALUES ('failed', '', 3, 4, 'photos: no such folder')"
            )
        page = client.get("/panel").text
        assert "Model 1" in page
        assert "No model yet" not in page
        assert "Training failed: photos: no such folder" in page
        assert "before there is a model" not in client.get("/review").text


def test_why_there_is_no_model_yet_stands_beside_the_image(photos):
    with open_pages(photos, validation_share=0.0) as (project, client):
        assert "A model needs labels of two classes; none" in client.get("/panel").text
        first, second = (state.sample for state in project.queue.samples()[:2])
        project.queue.answer("ann", first, ["cat"])
        page = client.get("/progress").text
        assert "all that it may learn from are: cat." in page
        project.queue.answer("ann", second, ["dog"])
        assert project.why_no_model() is None


def test_beside_the_zip_file_stands_what_it_leaves_out(photos, tmp_path):
    words = "leaves out images with none of the classes"
    with open_pages(photos) as (_, client):
        assert words not in client.get("/files").text
    with open_pages(draw_shapes(tmp_path / "more", 2), multi_label=True) as (_, client):
        assert words in client.get("/files").text
