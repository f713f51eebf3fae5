"""Looking at every label is asked for with one training, and with that one alone."""

from __future__ import annotations

import secrets

import pytest
from small_project import make_photos, open_project, truth

from steepest.labelling.project.retraining import run_round
from steepest.labelling.project.trainings import claim, interrupt

FAST = {"epochs": 2, "batch_size": 4, "image_size": 12, "validation_share": 0.0}


@pytest.fixture
def project(tmp_path):
    with open_project(make_photos(tmp_path / "photos", 12), **FAST) as project:
        for state in project.queue.samples():
            project.queue.answer("ann", state.sample, [truth(state.sample)])
        yield project


def run(project):
    assert run_round(project.store, project.source, secrets.token_hex(4))


def checked(project):
    """Return how many labels each version looked at."""
    with project.store.reading() as connection:
        rows = connection.execute(
            "SELECT version, count(*) AS n FROM opinions WHERE source = 'fold' GROUP BY version"
        )
        return {row["version"]: row["n"] for row in rows}


def test_only_the_training_it_is_asked_with_looks_at_every_label(project):
    project.trainer.request(folds=3)
    run(project)
    project.trainer.request()
    run(project)
    assert checked(project) == {1: 12}
    assert project.settings.folds == 0


def test_a_training_that_waits_already_is_made_to_look(project):
    project.trainer.request()
    project.trainer.request(folds=3)
    project.trainer.request()
    run(project)
    assert checked(project) == {1: 12}


def test_a_training_that_was_interrupted_looks_when_it_begins_again(project):
    project.trainer.request(folds=3)
    with project.store.writing() as connection:
        claim(connection, "old", 0.0)
        assert interrupt(connection, 1.0)
    run(project)
    assert checked(project) == {1: 12}
