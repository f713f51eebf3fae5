"""Picks become tasks: once, in our order, with pictures and guesses."""

from __future__ import annotations

import base64
import sys

import numpy as np
import pytest
from PIL import Image
from small_loop import CLASSES, IDS, add_round, make_client, make_loop

from steepest.errors import DataError, InputError, RunFolderError, SteepestWarning
from steepest.labelling.exchange.array_identity import identify_array
from steepest.labelling.exchange.folder import LoopFolder, Settings
from steepest.labelling.exchange.vocabulary import Vocabulary
from steepest.labelling.label_studio.masks import draw_map
from steepest.labelling.label_studio.pictures import Gallery
from steepest.labelling.label_studio.project import default_title, ensure_project, find_project
from steepest.labelling.label_studio.pull import Reading, pull
from steepest.labelling.label_studio.push import Pictures, push
from steepest.labelling.project import open_pool

UPLOAD = Pictures()


def test_picks_become_tasks_that_the_server_serves_in_our_order(server, project, folder):
    assert push(folder, project, UPLOAD) == (3, 0)
    assert server.order() == ["3.png", "1.png", "5.png"]
    assert server.projects[1]["sampling"] == "Uncertainty sampling"
    versions = {t["predictions"][0]["model_version"] for t in server.tasks.values()}
    assert versions == {server.projects[1]["model_version"]}
    data = server.task_of("3.png")["data"]
    assert (data["steepest_score"], data["steepest_rank"], data["steepest_model"]) == (9, 1, "beef")


def test_pushing_again_adds_nothing(server, project, folder):
    push(folder, project, UPLOAD)
    assert push(folder, project, UPLOAD) == (0, 3)
    assert (len(server.tasks), len(server.uploads)) == (3, 3)


def test_rounds_interleave_by_rank_and_labelled_samples_stay_at_home(server, project, folder):
    push(folder, project, UPLOAD)
    with folder.open_pool() as pool:
        pool.label(["1.png"], [0], cycle=0, who="ana")
    add_round(folder, ["0.png", "2.png"])
    assert push(folder, project, UPLOAD) == (2, 2)
    assert server.order() == ["3.png", "0.png", "1.png", "2.png", "5.png"]


def test_more_picks_than_a_page_or_a_request_holds(server, client, tmp_path):
    ids = [f"{i}" for i in range(230)]
    np.save(tmp_path / "rows.npy", np.zeros((230, 1, 2, 2)))
    folder = LoopFolder(tmp_path / "l", Settings("classification", CLASSES, f"{tmp_path}/rows.npy"))
    folder.begin(range(230))
    add_round(folder, [int(i) for i in ids])
    project = ensure_project(client, "many", folder.vocabulary)
    assert push(folder, project, Pictures("embed")) == (230, 0)
    assert push(folder, project, Pictures("embed")) == (0, 230)
    assert server.order() == [int(i) for i in ids]


def test_large_pictures_travel_few_at_a_time(server, project, folder, monkeypatch):
    # The package's function of the same name hides the module.
    monkeypatch.setattr(sys.modules[push.__module__], "_MOST_BYTES", 300)
    assert push(folder, project, UPLOAD) == (3, 0)
    sent = [path for method, path, _ in server.asked if method == "POST" and "commit" in path]
    assert len(sent) > 1
    assert len(server.tasks) == len(server.uploads) == 3


@pytest.mark.parametrize("at", range(8))
def test_a_request_whose_answer_is_lost_makes_no_task_twice(server, project, folder, at):
    server.forgets = [0] * at + [502]
    assert push(folder, project, UPLOAD) == (3, 0)
    assert sorted(t["data"]["steepest_id"] for t in server.tasks.values()) == [
        "1.png",
        "3.png",
        "5.png",
    ]
    assert len(server.uploads) == 3


def test_a_push_that_was_cut_short_goes_on(server, project, folder):
    server.failures = [0, 0, 500, 500, 500, 500, 500, 500, 500, 500, 500]
    with pytest.raises(DataError, match="500"):
        push(folder, project, UPLOAD)
    server.failures = []
    push(folder, project, UPLOAD)
    assert len(server.tasks) == len(server.uploads) == 3


def test_patience_with_a_server_that_stays_away_ends_once(server, client, folder):
    server.failures = [0, *[500] * 20]
    with pytest.raises(DataError, match="500"):
        ensure_project(client, "one", folder.vocabulary)
    # The look, the try to make it, and the look before the next with its two retries.
    assert len(server.asked) == 5


def test_uploaded_pictures_are_the_files_themselves(server, project, folder):
    push(folder, project, UPLOAD)
    task = server.task_of("3.png")
    content = {f"/data/{path}": content for _, path, content in server.uploads}
    assert content[task["data"]["image"]] == (folder.source / "3.png").read_bytes()


def test_pictures_can_be_embedded_or_named(server, client, folder, tmp_path):
    words = folder.vocabulary
    push(folder, ensure_project(client, "one", words), Pictures("embed"))
    kind, _, text = server.task_of("3.png")["data"]["image"].partition(";base64,")
    assert kind == "data:image/png"
    assert base64.b64decode(text) == (folder.source / "3.png").read_bytes()
    server.tasks.clear()
    push(folder, ensure_project(client, "two", words), Pictures("local", root=tmp_path))
    assert server.task_of("3.png")["data"]["image"] == "/data/local-files/?d=photos/3.png"
    assert server.uploads == []
    with pytest.raises(InputError, match="document root"):
        Pictures("local")
    server.tasks.clear()
    with pytest.raises(InputError, match="not below"):
        push(folder, ensure_project(client, "two", words), Pictures("local", root=tmp_path / "x"))


def test_rows_of_another_array_than_they_were_picked_from_are_not_sent(server, client, tmp_path):
    rows = np.arange(96, dtype=np.float32).reshape(6, 4, 4)
    np.save(tmp_path / "pool.npy", rows)
    settings = Settings(
        "classification", CLASSES, str(tmp_path / "pool.npy"), array=identify_array(rows)
    )
    folder = LoopFolder(tmp_path / "loop", settings)
    folder.begin(range(6))
    add_round(folder, [3])
    project = ensure_project(client, "rows", folder.vocabulary)
    np.save(tmp_path / "pool.npy", rows[::-1])
    with pytest.raises(RunFolderError, match=r"other values.*bring the array back"):
        push(folder, project, UPLOAD)
    assert (server.tasks, server.uploads) == ({}, [])
    np.save(tmp_path / "moved.npy", rows)
    assert push(folder, project, Pictures(pool=tmp_path / "moved.npy")) == (1, 0)
    # What has its task already is not looked at again.
    assert push(folder, project, UPLOAD) == (0, 1)


def test_pictures_that_browsers_cannot_show_upright_become_png(tmp_path):
    turned = Image.new("RGB", (6, 4), "red")
    exif = turned.getexif()
    exif[0x0112] = 6
    turned.save(tmp_path / "turned.jpg", exif=exif)
    turned.save(tmp_path / "scan.tif")
    gallery = Gallery(tmp_path)
    assert (gallery.picture("turned.jpg").kind, gallery.picture("turned.jpg").size) == (
        "png",
        (6, 4),
    )
    assert (gallery.picture("scan.tif").kind, gallery.picture("scan.tif").size) == ("png", (4, 6))
    with pytest.raises(DataError, match="outside"):
        gallery.picture("../secret.png")
    with pytest.raises(DataError, match="cannot be shown"):
        gallery.picture("gone.png")
    with pytest.raises(DataError, match="--pool"):
        Gallery(tmp_path / "nowhere")


def test_guesses_become_predictions(server, client, tmp_path):
    several = make_loop(tmp_path / "m", "multi-label", guesses=([0, 1], [], [2]))
    push(several, ensure_project(client, "tags", several.vocabulary), UPLOAD)
    said = [t["predictions"][0]["result"] for t in server.tasks.values()]
    assert said[0][0]["value"] == {"choices": ["cat", "dog & co"]}
    assert said[1] == []


def test_a_guessed_map_becomes_brush_regions_of_the_pictures_size(server, client, tmp_path):
    folder = make_loop(tmp_path, "segmentation", picks=("3.png",))
    pixels = np.zeros((3, 4), dtype=np.uint8)
    pixels[1:, 2:] = 2
    pool_label = folder.maps.save(pixels)
    add_round(folder, ["1.png"], [pool_label])
    push(folder, ensure_project(client, "masks", folder.vocabulary), UPLOAD)
    regions = server.task_of("1.png")["predictions"][0]["result"]
    assert [r["value"]["brushlabels"] for r in regions] == [["cat"], ["owl"]]
    drawn = draw_map(regions, folder.vocabulary, None)
    assert np.array_equal(drawn, pixels.repeat(2, 0).repeat(2, 1))


def test_a_project_is_found_by_its_exact_title(server, client, folder):
    words = folder.vocabulary
    titles = ["photos", "photos 2", "photos 3", "photos of ours"]
    numbers = [ensure_project(client, title, words).id for title in titles]
    assert numbers == [1, 2, 3, 4]
    assert [ensure_project(client, title, words).id for title in titles] == numbers
    assert find_project(client, "phot", words) is None
    server.projects[4]["title"] = "photos"
    with pytest.raises(InputError, match="2 projects 'photos'"):
        find_project(client, "photos", words)


def test_a_project_whose_making_was_not_answered_is_not_made_twice(server, client, folder):
    server.forgets = [0, 504]
    assert ensure_project(client, "photos", folder.vocabulary).id == 1
    assert len(server.projects) == 1


def test_a_project_of_other_classes_or_samples_is_refused(server, client, folder, tmp_path):
    project = ensure_project(client, "photos", folder.vocabulary)
    with pytest.raises(InputError, match=r"classes differ.*--title"):
        find_project(client, "photos", Vocabulary("classification", ("cat", "owl")))
    with pytest.raises(InputError, match="BrushLabels"):
        find_project(client, "photos", Vocabulary("segmentation", CLASSES))
    push(folder, project, UPLOAD)
    other = LoopFolder(tmp_path / "other", Settings("classification", CLASSES, str(folder.source)))
    other.begin(IDS[:4])
    add_round(other, ["3.png"])
    with pytest.raises(InputError, match="another pool"):
        push(other, project, UPLOAD)


def test_a_project_that_serves_in_another_order_is_warned_about(server, project, folder):
    server.projects[1]["sampling"] = "Sequential sampling"
    with pytest.warns(SteepestWarning, match="uncertainty sampling"):
        push(folder, project, UPLOAD)


@pytest.mark.parametrize("title", ["ab", "x" * 51])
def test_a_title_that_label_studio_refuses_is_refused_here(server, title, folder):
    with pytest.raises(InputError, match="3 to 50"):
        ensure_project(make_client(server.url), title, folder.vocabulary)
    assert 3 <= len(default_title(folder)) <= 50


def test_what_a_program_asks_about_becomes_a_task_and_comes_back(server, project, folder):
    with open_pool(folder.path, "loop") as pool:
        pool.query(["7.png"], cycle=1, who="margin")
        assert push(folder, project, Pictures()) == (4, 0)
        server.choose("7.png", "owl")
        assert pull(folder, project, Reading()).new == 1
        assert pool.label_of("7.png") == 2
