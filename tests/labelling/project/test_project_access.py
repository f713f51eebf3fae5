"""Errors of reading that pass are not remembered; damaged files are."""

from __future__ import annotations

import errno
import io
import os
import secrets
import zipfile

import numpy as np
import pytest
from small_project import Clock, make_photos, open_project, truth

from steepest.errors import DataError
from steepest.labelling.project import decoding
from steepest.labelling.project.decoding import read_picture
from steepest.labelling.project.pictures import REST_SECONDS
from steepest.labelling.project.retraining import run_round
from steepest.labelling.project.source import AccessError, GoneError

FAST = {"epochs": 2, "batch_size": 4, "image_size": 12, "lr": 0.01, "validation_share": 0.0}
PASSING = [
    *(OSError(number, os.strerror(number)) for number in (errno.EACCES, errno.EMFILE)),
    *(OSError(number, os.strerror(number)) for number in (errno.EIO, errno.ESTALE)),
    MemoryError(),
]


@pytest.fixture
def photos(tmp_path):
    return make_photos(tmp_path / "photos", 6)


def refuse(monkeypatch, error, *names):
    """Let some files, or all, be refused when they are read."""
    read = decoding._read_image

    def refused(path, side):
        if not names or path.name in names:
            raise error
        return read(path, side)

    monkeypatch.setattr(decoding, "_read_image", refused)


@pytest.mark.parametrize("error", PASSING, ids=repr)
def test_what_cannot_be_read_now_is_shown_when_it_can(photos, monkeypatch, error):
    with open_project(photos) as project:
        with monkeypatch.context() as moment:
            refuse(moment, error, "red-000.png")
            with pytest.raises(AccessError, match=r"red-000\.png: cannot be read now") as caught:
                project.pictures.thumbnail("red-000.png")
        assert str(photos) not in str(caught.value)
        assert project.progress().unreadable == 0
        assert project.pictures.thumbnail("red-000.png").data


def test_meanwhile_other_samples_are_given_out(photos, monkeypatch):
    clock = Clock()
    with open_project(photos, clock=clock) as project:
        (task,) = project.queue.next("ann")
        refuse(monkeypatch, PASSING[0], task.sample)
        with pytest.raises(AccessError):
            project.pictures.thumbnail(task.sample)
        assert task.sample not in {other.sample for other in project.queue.next("ann", 6)}
        assert project.progress().open == 6
        project.queue.release("ann")
        clock.now += REST_SECONDS
        assert project.queue.next("ann")[0].sample == task.sample


def test_a_clock_that_was_far_ahead_lets_no_sample_rest_for_ever(photos, monkeypatch):
    clock = Clock(now=1e9)
    with open_project(photos, clock=clock) as project:
        refuse(monkeypatch, PASSING[0], "red-000.png")
        with pytest.raises(AccessError):
            project.pictures.thumbnail("red-000.png")
        assert len(project.queue.next("ann", 6)) == 5
        clock.now -= 1e6
        assert len(project.queue.next("bob", 6)) == 6


def test_a_training_goes_on_without_what_cannot_be_read_now(photos, monkeypatch):
    with open_project(photos, **FAST) as project:
        for path in sorted(photos.glob("*.png")):
            project.queue.answer("ann", path.name, [truth(path.name)])
        with monkeypatch.context() as moment:
            refuse(moment, PASSING[0], "red-000.png")
            for _ in range(2):
                project.trainer.request()
                assert run_round(project.store, project.source, secrets.token_hex(4))
        project.trainer.request()
        assert run_round(project.store, project.source, secrets.token_hex(4))
        assert [done.labels for done in project.trainings()] == [5, 5, 6]


def test_a_training_that_can_read_nothing_now_says_so(photos, monkeypatch):
    with open_project(photos, **FAST) as project:
        refuse(monkeypatch, PASSING[0])
        project.trainer.request()
        with pytest.raises(AccessError, match="Permission denied"):
            run_round(project.store, project.source, "token")
        assert (project.progress().unreadable, project.batch()) == (0, None)


@pytest.mark.parametrize("number", [errno.EINVAL, None])
def test_what_decoders_say_in_the_systems_words_is_about_the_content(photos, monkeypatch, number):
    error = OSError("broken data stream") if number is None else OSError(number, "bad seek")
    refuse(monkeypatch, error)
    with pytest.raises(DataError, match="cannot be shown") as caught:
        read_picture(photos / "red-000.png", 32)
    assert not isinstance(caught.value, AccessError | GoneError)


def test_a_file_that_vanishes_is_gone(tmp_path):
    for name in ("none.png", "none.npy", "none.npz", "none.mrc"):
        with pytest.raises(GoneError, match="gone"):
            read_picture(tmp_path / name, 32)


def test_an_array_that_claims_more_than_it_holds_is_damaged_and_not_short_of_memory(tmp_path):
    whole = io.BytesIO()
    np.save(whole, np.zeros((4, 4)))
    huge = whole.getvalue().replace(b"(4, 4), }        ", b"(1000000000, 4), }")
    assert b"1000000000" in huge
    with zipfile.ZipFile(tmp_path / "huge.npz", "w") as packed:
        packed.writestr("data.npy", huge)
    with pytest.raises(DataError, match="truncated") as caught:
        read_picture(tmp_path / "huge.npz", 32)
    assert not isinstance(caught.value, AccessError)
