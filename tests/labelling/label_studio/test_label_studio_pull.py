"""Annotations become labels: new, edited, skipped, deleted, disputed; the same twice is once."""

from __future__ import annotations

import numpy as np
import pytest
from small_loop import add_round, journal, make_loop

from steepest.errors import InputError, PoolError
from steepest.labelling.label_studio.masks import encode_brush
from steepest.labelling.label_studio.project import ensure_project
from steepest.labelling.label_studio.pull import Reading, pull
from steepest.labelling.label_studio.push import Pictures, push
from steepest.pool import State, Verb

MAJORITY = Reading(disagreement="majority")


@pytest.fixture
def pushed(server, project, folder):
    push(folder, project, Pictures())
    return project


def labels_of(folder):
    return dict(zip(*folder.read_pool().labelled(), strict=True))


def value_of(task):
    return task["annotations"][0]["result"][0]["value"]


def read_again(folder, project, reading=None):
    """Pull, and check that pulling again changes nothing."""
    done = pull(folder, project, reading or Reading())
    before = journal(folder)
    assert not pull(folder, project, reading or Reading()).anything
    assert journal(folder) == before
    return done


def test_annotations_become_labels_by_our_ids(server, pushed, folder):
    server.choose("1.png", "dog & co", person=7)
    done = read_again(folder, pushed)
    assert (done.new, done.waiting) == (1, 2)
    assert labels_of(folder) == {"1.png": 1}
    event = folder.read_pool().history("1.png")[-1]
    assert (event.who, event.cycle) == ("label-studio:7", 0)
    assert (folder.path / "labels.csv").read_text() == "id,label\n1.png,dog & co\n"


def test_an_edited_annotation_replaces_its_label(server, pushed, folder):
    said = server.choose("1.png", "cat")
    pull(folder, pushed, Reading())
    said["result"][0]["value"]["choices"] = ["owl"]
    assert read_again(folder, pushed).changed == 1
    assert [e.verb for e in folder.read_pool().history("1.png")][-1] is Verb.RELABEL
    assert labels_of(folder) == {"1.png": 2}


def test_a_deleted_annotation_makes_its_sample_wait_again(server, pushed, folder):
    server.choose("1.png", "cat")
    server.annotate("3.png", [], was_cancelled=True)
    pull(folder, pushed, Reading())
    for sample in ("1.png", "3.png"):
        server.task_of(sample)["annotations"].clear()
    done = read_again(folder, pushed)
    assert (done.withdrawn, done.waiting) == (2, 3)
    # Being asked about again is no new round.
    assert add_round(folder, ["0.png"]) == 1


def test_a_deleted_task_leaves_its_label(server, pushed, folder):
    server.choose("1.png", "cat")
    pull(folder, pushed, Reading())
    del server.tasks[server.task_of("1.png")["id"]]
    assert not read_again(folder, pushed).anything
    assert labels_of(folder) == {"1.png": 0}


def test_a_skip_is_kept_until_someone_labels_it_after_all(server, pushed, folder):
    server.annotate("3.png", [], was_cancelled=True, person=4)
    assert read_again(folder, pushed).skipped == 1
    assert folder.read_pool().state("3.png") is State.SKIPPED
    server.choose("3.png", "owl", person=5)
    assert read_again(folder, pushed).changed == 1
    assert labels_of(folder) == {"3.png": 2}
    server.task_of("3.png")["annotations"].pop()
    assert read_again(folder, pushed).skipped == 1


def test_a_label_from_elsewhere_is_replaced_only_on_request(server, pushed, folder):
    with folder.open_pool() as pool:
        pool.label(["1.png"], [0], cycle=0, who="ana")
    server.choose("1.png", "owl")
    server.choose("3.png", "owl")
    before = journal(folder)
    with pytest.raises(PoolError, match=r"'1.png' is labelled 'cat'.*--relabel"):
        pull(folder, pushed, Reading())
    assert journal(folder) == before
    assert read_again(folder, pushed, Reading(relabel=True)).changed == 1
    assert labels_of(folder) == {"1.png": 2, "3.png": 2}


def test_a_label_from_elsewhere_is_not_withdrawn(server, pushed, folder):
    with folder.open_pool() as pool:
        pool.label(["1.png"], [0], cycle=0, who="ana")
    assert not read_again(folder, pushed).anything
    assert labels_of(folder) == {"1.png": 0}


def test_annotators_who_disagree_are_refused_and_nothing_is_taken_in(server, pushed, folder):
    server.choose("3.png", "owl")
    server.choose("1.png", "owl", person=1)
    server.choose("1.png", "cat", person=2)
    before = journal(folder)
    with pytest.raises(InputError, match=r"disagree about sample '1.png' \('.*--disagreement"):
        pull(folder, pushed, Reading())
    with pytest.raises(InputError, match="disagree"):
        pull(folder, pushed, MAJORITY)
    assert journal(folder) == before
    server.choose("1.png", "cat", person=3)
    read_again(folder, pushed, MAJORITY)
    assert labels_of(folder) == {"1.png": 0, "3.png": 2}
    assert folder.read_pool().history("1.png")[-1].who == "label-studio:1+2+3"


def test_ground_truth_decides_and_the_last_word_of_a_person_counts(server, pushed, folder):
    server.choose("1.png", "owl", person=1)
    server.choose("1.png", "cat", person=2, ground_truth=True)
    server.choose("3.png", "owl", person=1)
    server.choose("3.png", "cat", person={"id": 1, "email": "a@b"})
    read_again(folder, pushed)
    assert labels_of(folder) == {"1.png": 0, "3.png": 0}


def test_an_empty_annotation_is_no_answer_for_one_class_and_none_of_several(
    server, client, pushed, folder, tmp_path
):
    server.annotate("1.png", [])
    assert not read_again(folder, pushed).anything
    server.tasks.clear()
    several = make_loop(tmp_path / "tags", "multi-label")
    project = ensure_project(client, "tags", several.vocabulary)
    push(several, project, Pictures())
    server.annotate("1.png", [])
    server.choose("3.png", "owl", "cat")
    read_again(several, project)
    assert labels_of(several) == {"1.png": [], "3.png": [0, 2]}
    assert "1.png,|\n" in (several.path / "labels.csv").read_text()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: value_of(t).clear(), "unknown form"),
        (lambda t: value_of(t)["choices"].append("cat"), "2 classes"),
        (
            lambda t: value_of(t).update(choices=["ow"]),
            "did you mean",
        ),
        (lambda t: t["data"].update(steepest_id="nobody.png"), "no sample 'nobody.png'"),
        (lambda t: t["data"].update(steepest_pool="other"), "another pool"),
        (lambda t: t.update(annotations=3), "no list of annotations"),
    ],
)
def test_what_cannot_be_read_names_the_task_and_changes_nothing(
    server, pushed, folder, change, message
):
    server.choose("3.png", "owl")
    server.choose("1.png", "owl")
    task = server.task_of("1.png")
    change(task)
    before = journal(folder)
    with pytest.raises(InputError, match=message) as error:
        pull(folder, pushed, Reading())
    assert f"task {task['id']}" in str(error.value)
    assert journal(folder) == before


def test_tasks_that_others_put_into_the_project_are_passed_over(server, pushed, folder):
    server.tasks[99] = {"id": 99, "project": 1, "data": {"image": "x"}, "annotations": []}
    server.choose("1.png", "cat")
    assert read_again(folder, pushed).new == 1


@pytest.fixture
def masks(server, client, tmp_path):
    folder = make_loop(tmp_path / "masks", "segmentation")
    project = ensure_project(client, "masks", folder.vocabulary)
    push(folder, project, Pictures())
    return folder, project


def region(mask, name):
    value = {"format": "rle", "rle": encode_brush(mask), "brushlabels": [name]}
    size = {"original_height": mask.shape[0], "original_width": mask.shape[1]}
    return {"type": "brushlabels", "value": value, **size}


def test_masks_become_label_maps_and_edited_ones_new_files(server, masks):
    folder, project = masks
    top = np.zeros((6, 8), dtype=bool)
    top[:2] = True
    said = server.annotate("3.png", [region(top, "owl")])
    read_again(folder, project)
    first = labels_of(folder)["3.png"]
    assert np.array_equal(folder.maps.load(first), np.where(top, 2, 255))
    said.update(result=[region(top, "cat")], updated_at="2026-02-01")
    assert read_again(folder, project).changed == 1
    second = labels_of(folder)["3.png"]
    assert np.array_equal(folder.maps.load(second), np.where(top, 0, 255))
    assert folder.maps.path(first).exists()
    name = folder.maps.file_name(second)
    assert (folder.path / "labels.csv").read_text() == f"id,label\n3.png,{name}\n"


def test_pixels_that_nobody_painted_can_be_background(server, masks):
    folder, project = masks
    top = np.zeros((6, 8), dtype=bool)
    top[:2] = True
    server.annotate("3.png", [region(top, "owl")])
    read_again(folder, project, Reading(background="cat"))
    assert np.array_equal(folder.maps.load(labels_of(folder)["3.png"]), np.where(top, 2, 0))
    with pytest.raises(InputError, match="did you mean"):
        pull(folder, project, Reading(background="cats"))


def test_a_majority_decides_about_each_pixel(server, masks):
    folder, project = masks
    for person, columns in enumerate((3, 5, 6)):
        mask = np.zeros((6, 8), dtype=bool)
        mask[:, :columns] = True
        server.annotate("3.png", [region(mask, "owl"), region(~mask, "cat")], person=person)
    with pytest.raises(InputError, match="disagree"):
        pull(folder, project, Reading())
    read_again(folder, project, MAJORITY)
    expected = np.zeros((6, 8), dtype=np.uint8)
    expected[:, :5] = 2
    assert np.array_equal(folder.maps.load(labels_of(folder)["3.png"]), expected)


def test_a_mask_is_not_drawn_again_while_it_is_unchanged(server, masks, monkeypatch):
    folder, project = masks
    server.annotate("3.png", [region(np.ones((6, 8), dtype=bool), "owl")])
    reading = Reading()
    pull(folder, project, reading)
    drawn = []
    monkeypatch.setattr("steepest.labelling.label_studio.annotations.draw_map", drawn.append)
    assert pull(folder, project, reading).known == 1
    assert drawn == []
