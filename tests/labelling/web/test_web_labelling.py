"""Label, skip, undo and go back, as the page does."""

from __future__ import annotations

import pytest
from drawn_shapes import draw_shapes
from label_server import samples_in
from web_pages import is_one_line, open_pages, stranger

from steepest.labelling.project import statistics
from steepest.labelling.project.batches import VALIDATION, Candidate, write_batch
from steepest.labelling.project.records import pack


@pytest.fixture
def photos(tmp_path):
    return draw_shapes(tmp_path / "photos", 6)


def pick_all(project, strategy="margin"):
    """Make every image a pick, with predictions."""
    with project.store.writing() as connection:
        rows = connection.execute("SELECT number FROM images ORDER BY id").fetchall()
        picks = [Candidate(row["number"], 0.25, strategy, pack([0.1, 0.7, 0.2])) for row in rows]
        write_batch(
            connection, picks, size=4, strategy=strategy, version=3, fingerprint="", now=1.0
        )
    project.queue.release("ann")  # what was given out before has no reason yet


def test_an_answer_is_stored_and_brings_the_next_image(photos):
    with open_pages(photos) as (project, client):
        first = samples_in(client.get("/").text)[0]
        page = client.post("/answer", data={"sample": first, "label": "dog"})
        assert page.headers["hx-trigger"] == '{"answered": true}'
        assert project.queue.label_of(first).labels == ("dog",)
        following = samples_in(page.text)[0]
        assert following != first
        assert samples_in(client.get("/task").text) == [following]


def test_what_was_done_is_announced_once(photos):
    with open_pages(photos) as (_, client):
        page = client.get("/").text
        assert page.count('id="notice"') == 1
        first = samples_in(page)[0]
        part = client.post("/answer", data={"sample": first, "label": "dog"}).text
        assert part.count('id="notice"') == 1
        assert f"{first}: dog." in part


def test_the_picture_after_the_next_is_named_for_preloading(photos):
    with open_pages(photos) as (project, client):
        page = client.get("/task").text
        browser = client.cookies["steepest-browser"]
        held = [task.sample for task in project.queue.next("ann", 2, browser)]
        assert samples_in(page) == held[:1]
        assert f'data-ahead="/picture?sample={held[1]}&amp;side=1024&amp;file=' in page


def test_a_skipped_image_is_not_shown_again_and_can_be_taken_back(photos):
    with open_pages(photos) as (project, client):
        first = samples_in(client.get("/task").text)[0]
        assert samples_in(client.post("/skip", data={"sample": first}).text) != [first]
        assert project.progress().skipped == 1
        assert samples_in(client.post("/undo").text) == [first]
        assert project.progress().skipped == 0


def test_nothing_to_take_back_is_said_in_one_line(photos):
    with open_pages(photos) as (_, client):
        for answer in (client.post("/undo"), client.get("/again")):
            assert answer.status_code == 400
            assert is_one_line(answer.text)


def test_back_leads_from_answer_to_answer_and_a_new_label_replaces_the_old(photos):
    with open_pages(photos) as (project, client):
        given = []
        for _ in range(3):
            given += samples_in(client.get("/task").text)
            client.post("/answer", data={"sample": given[-1], "label": "cat"})
        page = client.get("/again").text
        assert samples_in(page) == [given[2]]
        number = project.queue.history("ann")[0].number
        page = client.get(f"/again?before={number}").text
        assert samples_in(page) == [given[1]]
        assert 'value="cat" data-key="1" aria-pressed="true"' in page
        client.post("/answer", data={"sample": given[1], "label": "owl"})
        assert project.queue.label_of(given[1]).labels == ("owl",)
        assert samples_in(client.post("/undo").text) == [given[1]]
        assert project.queue.label_of(given[1]).labels == ("cat",)


def test_the_reason_for_a_pick_is_shown(photos, monkeypatch):
    with open_pages(photos) as (project, client):
        pick_all(project)
        page = client.get("/task").text
        for words in (
            "picked by margin",
            "rank 1",
            "score 0.25",
            "model 3",
            "No hint: models this sure",
        ):
            assert words in page
        assert "70 %" not in page
        monkeypatch.setattr(statistics, "hint_certainty", lambda project: 0.7)
        assert "70 %" in client.get("/task").text
        monkeypatch.setattr(statistics, "hint_certainty", lambda project: 0.71)
        assert "70 %" not in client.get("/task").text + client.get("/grid").text


def test_hints_are_kept_back_until_the_answer(photos):
    with open_pages(photos, hints=False) as (project, client):
        pick_all(project)
        page = client.get("/task").text
        assert not any(words in page for words in ("margin", "0.25", "70 %", "model 3"))
        grid = client.get("/grid").text
        assert not any(words in grid for words in ("margin", "70 %"))
        after = client.post("/answer", data={"sample": samples_in(page)[0], "label": "cat"}).text
        assert "the model said dog, 70 %" in after
        assert "picked by margin, rank 1, score 0.25" in after


def test_what_a_model_thinks_of_its_test_images_is_said_after_the_answer_alone(photos):
    with open_pages(photos) as (project, client):
        pick_all(project, VALIDATION)
        page = client.get("/task").text
        assert "random draw for testing models" in page
        assert "70 %" not in page + client.get("/grid").text
        after = client.post("/answer", data={"sample": samples_in(page)[0], "label": "cat"}).text
        assert "the model said dog, 70 %" in after


def test_an_image_that_somebody_chose_to_look_at_came_in_no_order(photos):
    with open_pages(photos) as (project, client):
        sample = project.queue.samples()[0].sample
        assert "in random order" in client.get("/task").text
        assert "in random order" not in client.get(f"/sample?sample={sample}").text


def test_several_classes_or_none_can_be_sent(photos):
    with open_pages(photos, multi_label=True) as (project, client):
        page = client.get("/task").text
        assert page.count('type="checkbox"') == 3
        first = samples_in(page)[0]
        second = samples_in(
            client.post("/answer", data={"sample": first, "label": ["cat", "owl"]}).text
        )[0]
        assert project.queue.label_of(first).labels == ("cat", "owl")
        client.post("/answer", data={"sample": second})
        assert project.queue.label_of(second).labels == ()


def test_the_grid_shows_many_and_answers_each_in_place(photos):
    with open_pages(photos) as (project, client):
        shown = samples_in(client.get("/grid").text)
        assert len(shown) == 6
        cell = client.post(
            "/answer", data={"sample": shown[3], "label": "owl", "view": "grid"}
        ).text
        assert samples_in(cell) == [shown[3]]
        assert 'value="owl" tabindex="-1" data-key="3" aria-pressed="true"' in cell
        assert project.queue.label_of(shown[3]).labels == ("owl",)
        skipped = client.post("/skip", data={"sample": shown[0], "view": "grid"}).text
        assert "skipped" in skipped
        assert client.post("/undo", data={"view": "grid"}).headers["hx-redirect"] == "/grid"


def test_the_end_is_said(photos):
    with open_pages(photos) as (project, client):
        for state in project.queue.samples():
            client.post("/answer", data={"sample": state.sample, "label": "cat"})
        page = client.get("/task").text
        assert "Nothing waits for you" in page
        assert "6 of 6 images are labelled" in page
        assert "Nothing waits for you" in client.get("/grid").text


def test_a_name_is_asked_for_once_and_kept(photos):
    with open_pages(photos, name=None) as (project, client):
        assert "Who labels?" in client.get("/").text
        assert client.get("/task").status_code == 400
        assert client.post("/name", data={"name": " Zoë "}).headers["hx-redirect"] == "/"
        page = client.get("/").text
        assert "Zoë" in page
        client.post("/answer", data={"sample": samples_in(page)[0], "label": "cat"})
        assert project.queue.history()[0].annotator == "Zoë"
        for bad in ("", "   ", "import", "a\nb", "x" * 65):
            assert client.post("/name", data={"name": bad}).status_code in (400, 422)


def test_a_change_of_name_gives_back_what_was_held(photos):
    with open_pages(photos) as (project, client):
        held = samples_in(client.get("/task").text)
        client.post("/name", data={"name": "bo"})
        assert project.queue.next("cy") != []
        assert [task.sample for task in project.queue.next("cy")] == held


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({"sample": "nowhere.png", "label": "cat"}, 400),
        ({"sample": "../secret.png", "label": "cat"}, 400),
        ({"sample": "x" * 5000, "label": "cat"}, 422),
        ({"label": "cat"}, 422),
        ({}, 422),
        ({"sample": "KNOWN"}, 400),
        ({"sample": "KNOWN", "label": "wolf"}, 400),
        ({"sample": "KNOWN", "label": ["cat", "dog"]}, 400),
        ({"sample": "KNOWN", "label": "cat", "view": "elsewhere"}, 422),
    ],
)
def test_what_cannot_be_understood_is_refused_in_one_line_and_changes_nothing(photos, form, status):
    with open_pages(photos) as (project, client):
        known = samples_in(client.get("/task").text)[0]
        answer = client.post(
            "/answer", data={k: known if v == "KNOWN" else v for k, v in form.items()}
        )
        assert answer.status_code == status
        assert is_one_line(answer.text)
        assert project.progress().labelled == 0


@pytest.mark.parametrize("address", ["/again", "/history"])
@pytest.mark.parametrize("before", ["-1", "x", str(1 << 63), "9" * 40])
def test_numbers_that_no_answer_has_are_refused_in_one_line(photos, address, before):
    with open_pages(photos) as (_, client):
        answer = client.get(address, params={"before": before})
        assert answer.status_code == 422
        assert is_one_line(answer.text)


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe\x00", b"--x\r\n", b"sample=%ff%fe&label=%00"])
@pytest.mark.parametrize(
    "kind",
    [
        "application/json",
        "multipart/form-data; boundary=x",
        "text/plain",
        "multipart/form-data",
        "application/x-www-form-urlencoded",
    ],
)
def test_garbage_is_refused(photos, content, kind):
    with open_pages(photos) as (project, client):
        answer = client.post("/answer", content=content, headers={"content-type": kind})
        assert answer.status_code in (400, 422)
        assert is_one_line(answer.text)
        assert project.progress().labelled == 0


def test_a_fault_is_said_without_its_insides(photos):
    with open_pages(photos) as (project, client):
        project.queue.next = None
        answer = client.get("/task")
        assert answer.status_code == 500
        assert is_one_line(answer.text)
        assert "TypeError" in answer.text


def test_names_of_files_and_classes_cannot_become_markup(tmp_path):
    photos = draw_shapes(tmp_path / "photos", 2)
    for path in sorted(photos.iterdir())[:1]:
        path.rename(photos / '"><img src=x onerror=1> & +%20.png')
    classes = ('<b>"bold"</b>'.replace("/", ""), "it's")
    with open_pages(photos, classes=classes, name="<i>") as (project, client):
        odd = next(s.sample for s in project.queue.samples() if "onerror" in s.sample)
        client.post("/answer", data={"sample": odd, "label": classes[0]})
        assert project.queue.label_of(odd).labels == (classes[0],)
        for address in ("/", "/grid", "/history", "/images", "/files", "/progress"):
            page = client.get(address).text
            assert "<img src=x" not in page
            assert "<b>" not in page
            assert "<i>" not in page
        link = next(
            part.split('"')[0].replace("&amp;", "&")
            for part in client.get("/history").text.split('src="')[1:]
            if part.startswith("/picture")
        )
        assert client.get(link).headers["content-type"] == "image/jpeg"


def test_a_stranger_cannot_answer(photos):
    with open_pages(photos) as (project, client):
        form = {"sample": project.queue.samples()[0].sample, "label": "cat"}
        answer = stranger(client).post("/answer", data=form, headers={"x-steepest": "1"})
        assert answer.status_code == 403
        assert project.progress().labelled == 0


def test_every_page_has_one_heading_of_the_first_rank(photos):
    with open_pages(photos) as (project, client):
        sample = project.queue.samples()[0].sample
        assert '<h1 class="unseen">Label</h1>' in client.get("/").text
        pages = ("grid", "progress", "review", "history", "images", "files")
        for address in ("/", *(f"/{page}" for page in pages), f"/sample?sample={sample}"):
            assert client.get(address).text.count("<h1") == 1
        for state in project.queue.samples():
            project.queue.answer("ann", state.sample, ["dog"])
        assert client.get("/").text.count("<h1") == 1
