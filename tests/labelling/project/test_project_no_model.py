"""Labels that no model can be trained on, and what is said of them."""

from __future__ import annotations

import secrets

import pytest
from small_project import CLASSES, make_photos, open_project

from steepest.labelling.project import Project
from steepest.labelling.project.retraining import run_round
from steepest.models import build
from steepest.modules.weights import save_weights

FAST = {"epochs": 2, "batch_size": 4, "image_size": 12}


@pytest.fixture
def photos(tmp_path):
    return make_photos(tmp_path / "photos", 12)


@pytest.mark.parametrize("given", [False, True])
def test_a_training_with_nothing_to_learn_and_nothing_to_pick_ends_well(tmp_path, photos, given):
    save_weights(build("small-cnn", 7, 3, 1), tmp_path / "w.safetensors")
    weights = str(tmp_path / "w.safetensors") if given else None
    with open_project(photos, weights=weights, **FAST) as project:
        for state in project.queue.samples():
            project.queue.answer("ann", state.sample, ["red"])
        project.trainer.request()
        assert run_round(project.store, project.source, secrets.token_hex(4))
        state = project.trainer.state()
        assert (state.status, state.error, state.model) == ("idle", None, None)
        assert project.picks() == []


def test_what_a_model_wants_is_said_until_there_is_enough(photos):
    with open_project(photos, validation_share=0.0, **FAST) as project:
        assert "labels of two classes; none" in project.why_no_model()
        project.queue.answer("ann", "red-000.png", ["red"])
        project.queue.answer("ann", "red-003.png", ["red"])
        assert project.why_no_model().endswith("all that it may learn from are: red")
        project.queue.answer("ann", "blue-002.png", ["blue"])
        assert project.why_no_model() is None


def test_labels_of_images_held_out_are_not_enough(photos):
    with open_project(photos, validation_share=0.5, **FAST) as project:
        with project.store.reading() as connection:
            rows = connection.execute("SELECT id, held_out FROM images ORDER BY id").fetchall()
        label = dict(zip((0, 1), CLASSES, strict=False))
        for row in rows:
            project.queue.answer("ann", row["id"], [label[row["held_out"]]])
        assert {row["held_out"] for row in rows} == {0, 1}
        assert project.why_no_model().endswith("are: red")


def test_one_class_alone_is_said_to_be_too_few(photos):
    with Project.open(photos, ["red"], background=False) as project:
        assert project.why_no_model() == (
            "a model needs two classes to tell apart: add one under Files"
        )
