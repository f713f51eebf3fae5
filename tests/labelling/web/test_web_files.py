"""Pictures, lists, figures, export and import."""

from __future__ import annotations

import csv
import io
import json
import shutil
import zipfile
from datetime import datetime

import pytest
from drawn_shapes import draw_shapes
from label_server import samples_in
from PIL import Image
from web_pages import is_one_line, open_pages

from steepest.errors import SkippedFilesWarning
from steepest.labelling.project import statistics
from steepest.labelling.project.statistics import CurvePoint, binomial_interval
from steepest.labelling.web.list_pages import PAGE
from steepest.labelling.web.progress_pages import draw_curve


@pytest.fixture
def photos(tmp_path):
    return draw_shapes(tmp_path / "photos", 6)


def upload(client, name, data, **form):
    return client.post("/import", files={"file": (name, data)}, data=form)


def zipped(*names):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, b"never read")
    return file.getvalue()


def told(archive):
    """Return what a zip file says about the images that are not in it."""
    return archive.read("left-out.csv").decode().splitlines()


def leftovers(project):
    return [path.name for path in project.folder.iterdir() if path.name.startswith(".steepest-")]


def test_a_picture_is_a_jpeg_that_browsers_may_keep(photos):
    with open_pages(photos) as (project, client):
        sample = project.queue.samples()[0].sample
        shown = client.get("/picture", params={"sample": sample, "side": 16})
        assert max(Image.open(io.BytesIO(shown.content)).size) == 16
        mark = {"if-none-match": shown.headers["etag"]}
        again = client.get("/picture", params={"sample": sample, "side": 16}, headers=mark)
        assert (again.status_code, again.content) == (304, b"")


def test_nothing_outside_of_the_folder_is_served(photos, tmp_path):
    draw_shapes(tmp_path / "secret", 1)
    secret = next((tmp_path / "secret").iterdir())
    (photos / "link.png").symlink_to(secret)
    with open_pages(photos) as (_, client):
        for sample in (
            f"../secret/{secret.name}",
            str(secret),
            "link.png",
            ".steepest/labels.sqlite",
            "",
            "\x00",
            "a" * 4000,
            "%2e%2e/x",
        ):
            assert client.get("/picture", params={"sample": sample}).status_code == 404
        for address in (
            "/static/../app.py",
            "/static/%2e%2e/app.py",
            "/static/htmx-LICENSE.txt",
            "/static//etc/passwd",
            "/docs",
            "/openapi.json",
            "/.steepest/labels.sqlite",
        ):
            assert client.get(address).status_code == 404


@pytest.mark.parametrize("side", ["15", "2049", "-1", "many", "1e3", ""])
def test_a_side_that_no_picture_has_is_refused(photos, side):
    with open_pages(photos) as (project, client):
        sample = project.queue.samples()[0].sample
        answer = client.get("/picture", params={"sample": sample, "side": side})
        assert answer.status_code == 422
        assert is_one_line(answer.text)


def test_a_hostile_image_is_refused_and_never_given_out(photos):
    for path in photos.iterdir():
        path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"A" * 100)
    (photos / "script.png").write_text("<svg onload=alert(1)>")
    good = draw_shapes(photos, 1, seed=9)
    with open_pages(good) as (project, client):
        for _ in range(10):
            asked = samples_in(client.get("/task").text)
            answer = client.get("/picture", params={"sample": asked[0]})
            if answer.status_code == 200:
                break
            assert answer.status_code == 422
            assert is_one_line(answer.text)
            assert answer.headers["content-type"].startswith("text/plain")
        assert answer.headers["content-type"] == "image/jpeg"
        bad = project.queue.samples(state="unreadable")
        assert all(state.sample not in samples_in(client.get("/grid").text) for state in bad)


def test_labels_go_out_as_a_table_lines_and_folders(photos):
    with open_pages(photos) as (project, client):
        given = {state.sample: "dog" for state in project.queue.samples()[:3]}
        for sample, label in given.items():
            project.queue.answer("ann", sample, [label])
        table = client.get("/export/csv")
        assert "attachment" in table.headers["content-disposition"]
        assert table.text.splitlines() == ["id,label", *(f"{s},dog" for s in given)]
        lines = [json.loads(line) for line in client.get("/export/jsonl").text.splitlines()]
        assert {line["id"]: line["labels"][0] for line in lines} == given
        with zipfile.ZipFile(io.BytesIO(client.get("/export/zip").content)) as archive:
            assert archive.testzip() is None
            assert set(archive.namelist()) == {f"dog/{sample}" for sample in given}
            for sample in given:
                assert archive.read(f"dog/{sample}") == (photos / sample).read_bytes()
        assert leftovers(project) == []
        assert client.get("/export/exe").status_code == 422


def test_what_each_person_says_goes_out_also_where_they_differ(photos):
    with open_pages(photos) as (project, client):
        first, second = (state.sample for state in project.queue.samples(limit=2))
        for who, sample, label in (
            ("ann", first, "cat"),
            ("bo", first, "dog"),
            ("bo", first, "owl"),
        ):
            project.queue.answer(who, sample, [label])
        project.queue.skip("ann", second)
        assert client.get("/export/csv").text == "id,label\n"
        answer = client.get("/export/answers")
        assert 'filename="answers.csv"' in answer.headers["content-disposition"]
        rows = list(csv.DictReader(io.StringIO(answer.text)))
        assert [(r["id"], r["annotator"], r["label"], r["skip"]) for r in rows] == [
            (first, "ann", "cat", ""),
            (first, "bo", "owl", ""),
            (second, "ann", "", "yes"),
        ]
        assert all(datetime.fromisoformat(row["at"]).tzinfo for row in rows)


def test_a_file_that_is_gone_is_left_out_of_the_folders(photos):
    with open_pages(photos) as (project, client):
        first, second = (state.sample for state in project.queue.samples()[:2])
        for sample in (first, second):
            project.queue.answer("ann", sample, ["cat"])
        (photos / first).unlink()
        with pytest.warns(SkippedFilesWarning, match=r"^1 image is not in the zip file"):
            given = client.get("/export/zip").content
        with zipfile.ZipFile(io.BytesIO(given)) as archive:
            assert archive.namelist() == [f"cat/{second}", "left-out.csv"]
            assert f'"{first}","cat","{first}: the file is gone"' in told(archive)


def test_what_went_out_comes_in_again(photos, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(photos, copy)
    with open_pages(photos) as (project, client):
        for state in project.queue.samples()[:3]:
            project.queue.answer("ann", state.sample, ["owl"])
        files = {kind: client.get(f"/export/{kind}").content for kind in ("csv", "jsonl", "zip")}
    for kind, data in files.items():
        shutil.rmtree(copy / ".steepest", ignore_errors=True)
        with open_pages(copy) as (project, client):
            assert "3 added" in upload(client, f"labels.{kind}", data).text
            assert "3 there already" in upload(client, f"labels.{kind.upper()}", data).text
            assert project.progress().labelled == 3
            assert leftovers(project) == []


def test_labels_that_differ_are_shown_and_left_out(photos):
    with open_pages(photos) as (project, client):
        sample = project.queue.samples()[0].sample
        project.queue.answer("ann", sample, ["owl"])
        answer = upload(client, "mine.csv", f"id,label\n{sample},cat\n".encode())
        assert "1 differ" in answer.text
        assert f"{sample}</a>: owl here, cat there" in answer.text
        assert project.queue.label_of(sample).labels == ("owl",)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("mine.csv", b"id,label\nnowhere.png,cat\n"),
        ("mine.csv", b"\xff\xfe\x00"),
        ("mine.csv", b""),
        ("mine.jsonl", b"[" * 100_000),
        ("mine.zip", b"PK\x03\x04 not really"),
        ("mine.zip", zipped("top.png")),
        ("mine.zip", zipped("cat/../../../etc/passwd")),
        ("mine.zip", zipped("wolf/circle-0000.png")),
        ("mine.exe", b"MZ"),
        ("../../mine", b"id,label\n"),
        ("", b"id,label\n"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_line(photos, name, data):
    with open_pages(photos) as (project, client):
        answer = upload(client, name, data)
        assert answer.status_code in (400, 422)
        assert is_one_line(answer.text)
        assert str(project.folder) not in answer.text
        assert project.progress().labelled == 0
        assert leftovers(project) == []


@pytest.mark.parametrize("kind", ["csv", "jsonl", "zip"])
def test_images_that_are_not_here_are_passed_over_if_asked_for(photos, kind):
    with open_pages(photos) as (project, client):
        sample = project.queue.samples()[0].sample
        lines = [json.dumps({"id": name, "label": "cat"}) for name in (sample, "gone.png")]
        data = {
            "csv": f"id,label\n{sample},cat\ngone.png,cat\n".encode(),
            "jsonl": "\n".join(lines).encode(),
            "zip": zipped(f"cat/{sample}", "cat/gone.png"),
        }[kind]
        refusal = upload(client, f"mine.{kind}", data)
        assert refusal.status_code == 400
        assert "say known only to pass over such images" in refusal.text
        assert project.progress().labelled == 0
        assert 'name="known_only"' in client.get("/files").text
        said = upload(client, f"mine.{kind}", data, known_only="true").text
        assert "1 added, 0 there already, 1 of images that are not here were passed over." in said
        assert project.queue.label_of(sample).labels == ("cat",)
        assert "passed over" not in upload(client, "a.zip", zipped(f"cat/{sample}")).text


def test_lists_come_page_by_page(tmp_path):
    photos = tmp_path / "photos"
    photos.mkdir()
    for number in range(PAGE + 5):
        (photos / f"{number:03d}.png").touch()
    with open_pages(photos) as (project, client):
        first = client.get("/images").text
        assert first.count('class="tile"') == PAGE
        assert client.get(f"/images?start={PAGE}").text.count('class="tile"') == 5
        for state in project.queue.samples(limit=PAGE + 5):
            project.queue.answer("bo", state.sample, ["cat"])
        assert "Nothing answered yet" in client.get("/history").text
        page = client.get("/history?everybody=true").text
        assert page.count('class="tile"') == PAGE
        older = page.rpartition("before=")[2].split("&")[0]
        assert client.get(f"/history?everybody=true&before={older}").text.count('"tile"') == 5
        assert client.get("/images?state=skipped&label=dog").text.count('class="tile"') == 0
        assert client.get("/images?state=nonsense").status_code == 422
        assert client.get("/images?label=wolf").status_code == 400
        assert client.get("/images?start=-1").status_code == 422


def test_any_sample_can_be_labelled_anew_from_the_lists(photos):
    with open_pages(photos) as (project, client):
        sample = project.queue.samples()[0].sample
        project.queue.answer("bo", sample, ["cat"])
        page = client.get("/sample", params={"sample": sample, "view": "review"}).text
        assert samples_in(page) == [sample]
        assert "bo: cat" in page
        answer = client.post("/answer", data={"sample": sample, "label": "dog", "view": "review"})
        assert answer.headers["hx-redirect"] == "/review"
        assert project.queue.answer_of("ann", sample).labels == ("dog",)
        assert client.get("/review").text.count('class="tile"') == 1  # now people are split
        assert client.get("/sample", params={"sample": "nowhere"}).status_code == 400


def test_the_panel_follows_the_work(photos):
    with open_pages(photos, overlap=2) as (project, client):
        assert "No model yet" in client.get("/panel").text
        sample = project.queue.samples()[0].sample
        client.post("/answer", data={"sample": sample, "label": "dog"})
        project.queue.answer("bo", sample, ["dog"])
        assert client.post("/train").status_code == 204
        page = client.get("/panel?target=75").text
        for words in (
            "1 <span",
            "of 6 labelled",
            "is about to begin",
            "Too early to say",
            "People agree with each other",
        ):
            assert words in page
        figures = client.get("/figures").text
        assert "ann, bo" in figures
        for target in ("0", "100", "-5", "high", "nan"):
            assert client.get(f"/panel?target={target}").status_code == 422


def test_looking_at_every_label_is_asked_for_with_one_training_alone(photos):
    with open_pages(photos) as (project, client):
        client.post("/train", data={"check": "true"})
        with project.store.reading() as connection:
            row = connection.execute("SELECT status, folds FROM trainings").fetchone()
        assert tuple(row) == ("wanted", 3)
        assert project.settings.folds == 0


def test_classes_and_hints_can_be_changed(photos):
    with open_pages(photos) as (project, client):
        client.post("/classes", data={"name": "wolf"})
        assert project.classes()[-1] == "wolf"
        assert 'value="wolf"' in client.get("/task").text
        assert client.post("/classes", data={"name": "a/b"}).status_code == 400
        client.post("/hints")
        assert not project.settings.hints
        client.post("/hints", data={"shown": "true"})
        assert project.settings.hints


def test_classes_without_a_digit_are_found_by_name(photos):
    with open_pages(photos, classes=tuple(f"class {n}" for n in range(15))) as (_, client):
        page = client.get("/task").text
        assert page.count('class="choice"') == 15
        assert page.count("<kbd>0</kbd>") == 1
        assert 'id="find"' in page


def test_what_the_last_doubling_brought_stands_below_the_curve(photos, monkeypatch):
    found = statistics.Doubling(50, 100, 40, 3, 1, 0.05, -0.054, 0.152)
    monkeypatch.setattr(statistics, "last_doubling", lambda _: found)
    with open_pages(photos) as (_, client):
        for address in ("/panel", "/figures"):
            page = client.get(address).text
            assert "From 50 to 100 labels: <strong>+5 points</strong>" in page
            assert "95 % interval −5 points to +15 points" in page


def test_the_curve_shows_points_with_their_intervals():
    def point(version, labels, correct):
        return CurvePoint(version, labels, 20, correct, *binomial_interval(correct, 20), 0.0)

    drawn = draw_curve([point(1, 10, 8), point(2, 25, 15)], 0.9)
    assert drawn.count("<circle") == 2
    assert "model 2 is right on 75 % of 20 test images, with 25 labels" in drawn
    assert "15 of 20 right, 25 labels, 95 % interval 53 % to 89 %" in drawn
    assert drawn.count("curve-target") == 1
    assert not draw_curve([])
    assert not draw_curve([CurvePoint(1, 5, 0, 0, None, None, None, 0.0)])
