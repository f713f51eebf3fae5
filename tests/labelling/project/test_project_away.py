"""A folder of images that is away for a while: nothing is lost, and all of it comes back."""

from __future__ import annotations

import secrets

import pytest
from small_project import make_photos, open_project, truth

from steepest.errors import DataError
from steepest.labelling.project import choosing, retraining
from steepest.labelling.project.retraining import run_round

FAST = {"epochs": 2, "batch_size": 4, "image_size": 12, "lr": 0.01, "validation_share": 0.0}


@pytest.fixture
def photos(tmp_path):
    return make_photos(tmp_path / "photos", 12)


@pytest.fixture
def project(tmp_path, photos):
    with open_project(photos, folder=tmp_path / "project", **FAST) as project:
        yield project


def run(project):
    project.trainer.request()
    assert run_round(project.store, project.source, secrets.token_hex(4))


def give_up(project):
    """Let the trainer note the end of what has just failed."""
    with project.store.writing() as connection:
        connection.execute(
            "UPDATE trainings SET status = 'failed', error = 'no such folder', finished_at = 1 "
            "WHERE status = 'running'"
        )


def label_some(project, count=6):
    for state in project.queue.samples()[:count]:
        project.queue.answer("ann", state.sample, [truth(state.sample)])


def move_away(photos, *, empty):
    elsewhere = photos.rename(photos.with_name("elsewhere"))
    if empty:
        photos.mkdir()
    return elsewhere


def bring_back(photos, elsewhere):
    if photos.exists():
        photos.rmdir()
    elsewhere.rename(photos)


@pytest.mark.parametrize("empty", [False, True])
def test_a_training_without_the_folder_says_so_in_one_line_and_marks_nothing(
    project, photos, empty
):
    label_some(project)
    move_away(photos, empty=empty)
    with pytest.raises(DataError, match="bring") as caught:
        run(project)
    assert "\n" not in str(caught.value)
    counts = project.progress()
    assert (counts.missing, counts.unreadable, counts.open) == (0, 0, 6)


def test_a_folder_that_goes_away_during_a_training_ends_it_and_marks_nothing(
    project, photos, monkeypatch
):
    label_some(project)
    learnt = retraining.learn

    def learn(*args, **options):
        model = learnt(*args, **options)
        move_away(photos, empty=False)
        return model

    monkeypatch.setattr(retraining, "learn", learn)
    with pytest.raises(DataError, match="no such folder"):
        run(project)
    assert project.progress().missing == 0


def test_nothing_is_written_into_a_folder_that_went_away_at_the_very_end(photos, monkeypatch):
    with open_project(photos, **FAST) as project:
        label_some(project)

        def pick(this, learnt):
            picks = choosing.pick_by_model(this, learnt)
            move_away(photos, empty=False)
            return picks

        monkeypatch.setattr(retraining, "pick_by_model", pick)
        with pytest.raises(DataError, match="no such folder"):
            run(project)
        assert not photos.exists()
        bring_back(photos, photos.with_name("elsewhere"))
        assert project.progress().missing == 0


def test_a_training_after_the_return_trains_as_if_nothing_had_happened(project, photos):
    label_some(project)
    elsewhere = move_away(photos, empty=True)
    with pytest.raises(DataError):
        run(project)
    give_up(project)
    bring_back(photos, elsewhere)
    run(project)
    state = project.trainer.state()
    assert (state.last.version, state.last.labels, state.error) == (1, 6, None)


def test_a_model_stays_the_model_when_a_later_training_fails(project, photos):
    label_some(project)
    run(project)
    move_away(photos, empty=False)
    with pytest.raises(DataError):
        run(project)
    give_up(project)
    state = project.trainer.state()
    assert (state.model.version, state.last.version, state.error) == (1, None, "no such folder")


def test_images_that_were_gone_come_back_with_the_next_training(project, photos):
    kept = [path.rename(photos.parent / path.name) for path in sorted(photos.glob("red-*"))]
    run(project)
    assert project.progress().missing == 4
    for path in kept:
        path.rename(photos / path.name)
    run(project)
    counts = project.progress()
    assert (counts.missing, counts.open) == (0, 12)


def test_images_that_came_after_the_start_are_found_by_the_next_training(project, photos):
    (photos / "red-000.png").rename(photos / "red-900.png")
    run(project)
    assert "red-900.png" in {state.sample for state in project.queue.samples()}


def test_an_image_that_is_back_is_given_out_once_it_was_shown(project, photos):
    kept = (photos / "red-000.png").rename(photos.parent / "kept.png")
    with pytest.raises(DataError, match="gone"):
        project.pictures.thumbnail("red-000.png")
    assert project.progress().missing == 1
    kept.rename(photos / "red-000.png")
    project.pictures.thumbnail("red-000.png")
    counts = project.progress()
    assert (counts.missing, counts.open) == (0, 12)


@pytest.mark.parametrize("empty", [False, True])
def test_pictures_of_a_folder_that_is_away_are_not_taken_for_gone(project, photos, empty):
    elsewhere = move_away(photos, empty=empty)
    for state in project.queue.samples():
        with pytest.raises(DataError, match="bring"):
            project.pictures.thumbnail(state.sample)
    assert project.pictures.is_away("red-000.png")
    with pytest.raises(DataError, match="bring"):
        project.rescan()
    assert project.progress().missing == 0
    bring_back(photos, elsewhere)
    assert not project.pictures.is_away("red-000.png")
    assert len(project.queue.next("ann", 20)) == 12


@pytest.mark.parametrize("learn", ["scratch", "probe"])
def test_a_training_that_could_not_begin_begins_when_the_folder_is_back(photos, monkeypatch, learn):
    monkeypatch.setattr("steepest.labelling.project.trainer._GRACE_SECONDS", 0.05)
    with open_project(photos, background=True, learn=learn, **FAST) as project:
        assert project.trainer.wait(120)
        reading = project.store.reading
        with reading(), reading(), reading(), reading():
            pass  # connections that stay open: no new one can be made without the folder
        elsewhere = move_away(photos, empty=False)
        project.trainer.request()
        assert not project.trainer.wait(0.5)
        bring_back(photos, elsewhere)
        assert project.trainer.wait(120)
        assert project.batch().number == 2
