from __future__ import annotations

import csv

import pytest
from web_pages import open_pages

HOSTILE = "<script>alert(1)</script> & more"


@pytest.fixture
def reviews(tmp_path):
    path = tmp_path / "reviews.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerows([("id", "text"), ("../up", HOSTILE)])
        table.writerows((f"r{number}", f"sentence number {number}") for number in range(5))
    return path


def test_every_page_shows_the_words_and_runs_none_of_them(reviews):
    with open_pages(reviews) as (project, client):
        project.queue.answer("ann", "../up", ["cat"])
        for address in ("/history", "/images", "/sample?sample=../up&view=history"):
            page = client.get(address).text
            assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; more" in page, address
            assert "<script>alert" not in page
            assert "/picture?" not in page
        for address in ("/", "/grid"):
            page = client.get(address).text
            assert "sentence number" in page, address
            assert "/picture?" not in page


def test_pages_of_texts_speak_of_texts(reviews):
    with open_pages(reviews) as (_, client):
        for address in ("/", "/grid", "/progress", "/review", "/history", "/images", "/files"):
            page = client.get(address).text
            words = page.replace('href="/images', "").replace("page-images", "")
            shown = "".join(part.partition(">")[2] for part in words.split("<"))
            assert "image" not in shown.lower(), address


def test_rows_have_no_zip_file_and_no_picture(reviews):
    with open_pages(reviews) as (project, client):
        project.queue.answer("ann", "../up", ["cat"])
        assert "/export/zip" not in client.get("/files").text
        refused = client.get("/export/zip")
        assert (refused.status_code, "rows of a table" in refused.text) == (400, True)
        assert client.get("/picture?sample=r1").status_code in (404, 422)
        assert project.queue.samples(state="unreadable") == []
        assert client.get("/export/csv").text == "id,label\n../up,cat\n"


def test_texts_that_cannot_be_read_are_passed_over(tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    for number in range(30):
        (folder / f"{number}.txt").write_bytes(b"fine" if number == 7 else b"\xff\xff")
    with open_pages(folder) as (project, client):
        assert "Not shown" not in client.get("/grid").text
        page = client.get("/").text
        assert ">fine<" in page
        assert len(project.queue.samples(state="unreadable")) > 1


def test_long_texts_are_cut_on_the_page_alone(tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.txt").write_text("word " * 40_000, encoding="utf-8")
    with open_pages(folder) as (project, client):
        page = client.get("/").text
        assert "word …" in page
        assert len(page) < 100_000
        assert len(project.pictures.text("a.txt")) == 200_000
