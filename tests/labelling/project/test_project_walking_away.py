"""People who leave in the middle, and clocks that are set back, hold nobody up."""

from __future__ import annotations

import secrets

from small_project import Clock, make_photos, open_project, truth

from steepest.labelling.project.retraining import run_round
from steepest.labelling.project.trainings import claim, fail, is_due

FAST = {"epochs": 2, "batch_size": 6, "image_size": 12}


def test_a_pick_that_somebody_keeps_does_not_hold_up_the_next_training(tmp_path):
    photos = make_photos(tmp_path / "photos", 40)
    with open_project(photos, clock=Clock(), **FAST) as project:
        project.trainer.request()
        run_round(project.store, project.photos, secrets.token_hex(4))
        (kept,) = project.queue.next("who leaves")
        for done in range(6):
            assert project.batch().finished == done
            (task,) = project.queue.next("who stays")
            assert task.rank is not None
            assert task.sample != kept.sample
            project.queue.answer("who stays", task.sample, [truth(task.sample)])
        with project.store.reading() as connection:
            assert is_due(connection, 6)


def test_answers_beyond_the_size_of_a_batch_are_not_counted_in_it(tmp_path):
    photos = make_photos(tmp_path / "photos", 40)
    with open_project(photos, **FAST) as project:
        project.trainer.request()
        run_round(project.store, project.photos, secrets.token_hex(4))
        for _ in range(9):
            (task,) = project.queue.next("ann")
            project.queue.answer("ann", task.sample, [truth(task.sample)])
        assert (project.batch().finished, project.batch().size) == (6, 6)


def test_a_clock_that_is_set_back_after_a_failure_does_not_end_trainings(tmp_path):
    clock = Clock(10_000.0)
    photos = make_photos(tmp_path / "photos", 20)
    with open_project(photos, clock=clock, **FAST) as project:
        number = project.trainer.request()
        with project.store.writing() as connection:
            claim(connection, "token", clock())
            fail(connection, number, "no room", clock())
        clock.now -= 3600
        for _ in range(6):
            with project.store.reading() as connection:
                assert not is_due(connection, 6, clock())
            (task,) = project.queue.next("ann")
            project.queue.answer("ann", task.sample, [truth(task.sample)])
        with project.store.reading() as connection:
            assert is_due(connection, 6, clock())
            assert not is_due(connection, 6)
