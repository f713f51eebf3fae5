from __future__ import annotations

import sqlite3

import pytest
from small_project import Clock, make_names, open_project

from steepest.errors import InputError, UnknownNameError


@pytest.fixture
def project(tmp_path):
    with open_project(make_names(tmp_path / "photos", 6), clock=Clock()) as project:
        yield project


def test_undo_of_a_first_label_brings_the_sample_back_to_that_person(project):
    first, second = project.queue.next("ann", 2)
    project.queue.answer("ann", first.sample, ["red"])
    undone = project.queue.undo("ann")
    assert (undone.kind, undone.sample) == ("undo", first.sample)
    assert project.queue.label_of(first.sample).labels is None
    assert [t.sample for t in project.queue.next("ann", 2)] == [first.sample, second.sample]
    assert project.queue.history("ann") == []


def test_undo_of_a_relabel_brings_the_earlier_label_back(project):
    (task,) = project.queue.next("ann")
    project.queue.answer("ann", task.sample, ["red"])
    assert project.queue.answer("ann", task.sample, ["blue"]).kind == "relabel"
    project.queue.undo("ann")
    assert project.queue.label_of(task.sample).labels == ("red",)
    project.queue.undo("ann")
    assert project.queue.label_of(task.sample).labels is None
    assert project.queue.undo("ann") is None


def test_undo_of_a_skip_shows_the_sample_again(project):
    (task,) = project.queue.next("ann")
    project.queue.skip("ann", task.sample)
    assert project.queue.next("ann")[0].sample != task.sample
    project.queue.undo("ann")
    assert project.queue.next("ann")[0].sample == task.sample


def test_undo_takes_back_ones_own_answers_only(project):
    (mine,) = project.queue.next("ann")
    project.queue.answer("ann", mine.sample, ["red"])
    (other,) = project.queue.next("bob")
    project.queue.answer("bob", other.sample, ["blue"])
    project.queue.undo("ann")
    assert project.queue.label_of(other.sample).labels == ("blue",)


def test_a_label_after_a_skip_is_a_first_label(project):
    (task,) = project.queue.next("ann")
    project.queue.skip("ann", task.sample)
    assert project.queue.answer("ann", task.sample, ["green"]).kind == "label"
    project.queue.undo("ann")
    assert project.queue.answer_of("ann", task.sample).kind == "skip"


def test_history_pages_back_newest_first(project):
    samples = [task.sample for task in project.queue.next("ann", 4)]
    for sample in samples:
        project.queue.answer("ann", sample, ["red"])
    page = project.queue.history("ann", limit=3)
    assert [entry.sample for entry in page] == samples[:0:-1]
    rest = project.queue.history("ann", before=page[-1].number)
    assert [entry.sample for entry in rest] == samples[:1]
    assert [e.sample for e in project.queue.history(sample=samples[2])] == [samples[2]]


def test_the_majority_decides_and_a_tie_is_disputed(project):
    sample = "red-000.png"
    project.queue.answer("ann", sample, ["red"])
    project.queue.answer("bob", sample, ["blue"])
    assert project.queue.label_of(sample).disputed
    assert project.queue.label_of(sample).labels is None
    assert [s.sample for s in project.queue.samples(state="disputed")] == [sample]
    project.queue.answer("cid", sample, ["blue"])
    found = project.queue.label_of(sample)
    assert (found.labels, found.votes, found.disputed) == (("blue",), 3, False)


def test_wrong_answers_are_refused_in_one_line_and_leave_nothing(project):
    with pytest.raises(UnknownNameError, match="did you mean 'red'"):
        project.queue.answer("ann", "red-000.png", ["rad"])
    with pytest.raises(InputError, match="exactly one"):
        project.queue.answer("ann", "red-000.png", ["red", "blue"])
    with pytest.raises(InputError, match="exactly one"):
        project.queue.answer("ann", "red-000.png", [])
    with pytest.raises(InputError, match=r"no sample '\.\./red-000\.png'"):
        project.queue.answer("ann", "../red-000.png", ["red"])
    with pytest.raises(InputError, match="no sample"):
        project.queue.skip("ann", "\udcff.png")
    with pytest.raises(InputError, match="give a list"):
        project.queue.answer("ann", "red-000.png", "red")
    assert project.queue.history() == []


def test_several_classes_are_decided_one_by_one(tmp_path):
    photos = make_names(tmp_path / "photos", 3)
    with open_project(photos, multi_label=True) as project:
        sample = "red-000.png"
        project.queue.answer("ann", sample, ["blue", "red"])
        assert project.queue.label_of(sample).labels == ("red", "blue")
        project.queue.answer("bob", sample, ["red"])
        assert project.queue.label_of(sample).disputed
        project.queue.answer("cid", sample, ["red", "green"])
        assert project.queue.label_of(sample).labels == ("red",)
        project.queue.answer("ann", "green-001.png", [])
        assert project.queue.label_of("green-001.png").labels == ()
        assert [s.sample for s in project.queue.samples(label="red")] == [sample]


def test_a_class_can_be_added_and_used_later(project):
    project.add_class("violet")
    project.add_class("violet")
    assert project.classes() == ("red", "green", "blue", "violet")
    project.queue.answer("ann", "red-000.png", ["violet"])
    assert project.queue.label_of("red-000.png").labels == ("violet",)


@pytest.mark.parametrize("name", ["", " x", "a/b", "a;b", ".hidden", "a\tb", "x" * 101, "RED"])
def test_names_that_cannot_be_a_class_are_refused(project, name):
    with pytest.raises(InputError):
        project.add_class(name)


def test_the_history_can_only_grow(project):
    project.queue.answer("ann", "red-000.png", ["red"])
    with project.store.writing() as connection:
        with pytest.raises(sqlite3.IntegrityError, match="never changed"):
            connection.execute("UPDATE answers SET annotator = 'bob'")
        with pytest.raises(sqlite3.IntegrityError, match="never deleted"):
            connection.execute("DELETE FROM answers")


def test_an_unknown_state_is_refused(project):
    with pytest.raises(InputError, match="labelled, skipped, disputed"):
        project.queue.samples(state="lost")
