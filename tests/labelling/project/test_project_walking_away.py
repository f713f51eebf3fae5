"""People who leave in the middle, and clocks that are set back, hold nobody up."""

from __future__ import annotations

import secrets

from small_project import Clock, make_names, make_photos, open_project, truth

from steepest.labelling.project.batches import write_batch
from steepest.labelling.project.retraining import run_round
from steepest.labelling.project.trainings import claim, fail, is_due

FAST = {"epochs": 2, "batch_size": 6, "image_size": 12}


def test_a_pick_that_somebody_keeps_does_not_hold_up_the_next_training(tmp_path):
    photos = make_photos(tmp_path / "photos", 40)
    with open_project(photos, clock=Clock(), **FAST) as project:
        project.trainer.request()
        run_round(project.store, project.source, secrets.token_hex(4))
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
        run_round(project.store, project.source, secrets.token_hex(4))
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
                assert not is_due(connection, 6)
            (task,) = project.queue.next("ann")
            project.queue.answer("ann", task.sample, [truth(task.sample)])
        with project.store.reading() as connection:
            assert is_due(connection, 6)


def begin(project):
    project.trainer.request()
    run_round(project.store, project.source, secrets.token_hex(4))


def due(project):
    with project.store.reading() as connection:
        return is_due(connection, 6)


def label(project, count, by="who stays"):
    for _ in range(count):
        (task,) = project.queue.next(by)
        project.queue.answer(by, task.sample, [truth(task.sample)])


def test_two_grids_that_are_left_open_do_not_hold_up_the_next_training(tmp_path):
    photos = make_photos(tmp_path / "photos", 60)
    with open_project(photos, clock=Clock(), **FAST) as project:
        begin(project)
        held = [task for who in ("bo", "cy") for task in project.queue.next(who, 5)]
        assert all(task.rank for task in held)
        label(project, 2)  # the last two of twelve picks
        assert project.queue.next("who stays")[0].rank is None
        for done in range(2, 6):
            assert (project.batch().finished, due(project)) == (done, False)
            label(project, 1)
        assert due(project)


def test_answers_while_a_model_is_trained_count_towards_the_next(tmp_path):
    photos = make_photos(tmp_path / "photos", 60)
    with open_project(photos, **FAST) as project:
        label(project, 5)
        project.trainer.request()
        with project.store.writing() as connection:
            claim(connection, "token", 0.0)
        label(project, 4)
        with project.store.writing() as connection:
            connection.execute("UPDATE trainings SET status = 'done'")
            write_batch(connection, [], size=6, strategy="x", version=None, fingerprint="", now=0.0)
        assert project.batch().finished == 4
        label(project, 1)
        project.queue.undo("who stays")
        assert project.batch().finished == 4
        label(project, 2)
        assert due(project)


def test_an_answer_of_a_second_person_and_a_correction_count_as_one_image(tmp_path):
    photos = make_photos(tmp_path / "photos", 40)
    with open_project(photos, overlap=2, **FAST) as project:
        label(project, 2)
        begin(project)
        label(project, 2, by="bo")  # what the other began
        assert project.batch().finished == 2
        first = project.queue.history("bo")[0].sample
        project.queue.answer("bo", first, ["red"])
        project.queue.answer("who stays", first, ["blue"])
        assert project.batch().finished == 2


def test_where_no_pick_is_left_a_batch_of_answers_is_awaited(tmp_path):
    photos = make_photos(tmp_path / "photos", 12)
    with open_project(photos, **FAST) as project:
        label(project, 12)
        begin(project)
        assert (project.picks(), project.batch().size, due(project)) == ([], 6, False)
        for number, path in enumerate(sorted(photos.glob("*.png"))[:6]):
            assert project.batch().finished == number
            project.queue.answer("who stays", path.name, ["red"])
        assert due(project)


def test_a_pick_that_cannot_be_shown_counts_as_done(tmp_path):
    photos = make_photos(tmp_path / "photos", 40)
    with open_project(photos, **FAST) as project:
        begin(project)
        with project.store.writing() as connection:
            connection.execute(
                "UPDATE images SET unreadable = 'x', open = 0 WHERE number = "
                "(SELECT image FROM picks WHERE rank = 3)"
            )
        label(project, 5)
        assert project.batch().finished == 6


def test_images_of_a_grid_are_kept_for_as_long_as_somebody_moves_there(tmp_path):
    clock = Clock()
    photos = make_names(tmp_path / "photos", 12)
    with open_project(photos, clock=clock, lease_seconds=600.0) as project:
        grid = [task.sample for task in project.queue.next("bo", 12, "b", seconds=120.0)]
        clock.now += 100
        assert project.queue.renew("bo", grid[:10], "b", seconds=120.0) == []
        assert project.queue.next("ann") == []
        clock.now += 100
        taken = {task.sample for task in project.queue.next("ann", 12)}
        assert taken == set(grid[10:])
        assert project.queue.holders() == {"bo": 10, "ann": 2}
        assert project.queue.renew("bo", grid, "b", seconds=120.0) == grid[10:]
        assert project.queue.renew("bo", grid, "another", seconds=120.0) == grid
        clock.now += 121
        assert project.queue.holders() == {"ann": 2}


def test_who_goes_on_one_by_one_does_not_keep_the_rest_of_a_grid(tmp_path):
    clock = Clock()
    photos = make_names(tmp_path / "photos", 12)
    with open_project(photos, clock=clock) as project:
        project.queue.next("bo", 12, seconds=120.0)
        project.queue.next("bo", 2)
        clock.now += 121
        assert len(project.queue.next("ann", 12)) == 10
