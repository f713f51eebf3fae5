"""One name at two browsers: each is given other samples, and the answers are one person's."""

from __future__ import annotations

import pytest
from small_project import Clock, make_names, open_project


@pytest.fixture
def photos(tmp_path):
    return make_names(tmp_path / "photos", 12)


def names(tasks):
    return [task.sample for task in tasks]


@pytest.mark.parametrize("overlap", [1, 2])
def test_two_browsers_under_one_name_are_given_other_samples(photos, overlap):
    with open_project(photos, overlap=overlap) as project:
        here = names(project.queue.next("team", 6, "here"))
        there = names(project.queue.next("team", 6, "there"))
        assert len({*here, *there}) == 12
        assert names(project.queue.next("team", 6, "here")) == here
        assert project.queue.next("team", 1, "elsewhere") == []


def test_what_was_answered_at_one_browser_is_not_asked_at_the_other(photos):
    with open_project(photos, overlap=2) as project:
        (task,) = project.queue.next("team", 1, "here")
        project.queue.answer("team", task.sample, ["red"])
        assert task.sample not in names(project.queue.next("team", 12, "there"))
        assert [a.annotator for a in project.queue.history("team")] == ["team"]


def test_a_lease_that_runs_out_at_one_browser_lets_the_other_have_the_sample(photos):
    clock = Clock()
    with open_project(photos, clock=clock, lease_seconds=60.0) as project:
        held = names(project.queue.next("team", 12, "here"))
        clock.now += 50.0
        assert project.queue.next("team", 1, "there") == []
        clock.now += 10.0
        assert names(project.queue.next("team", 1, "there"))[0] in held


def test_an_undo_takes_back_what_was_answered_there(photos):
    with open_project(photos) as project:
        (here,) = names(project.queue.next("team", 1, "here"))
        (there,) = names(project.queue.next("team", 1, "there"))
        project.queue.answer("team", here, ["red"], "here")
        project.queue.skip("team", there, "there")
        assert project.queue.undo("team", "here").sample == here
        assert project.queue.undo("team", "here") is None
        assert [entry.sample for entry in project.queue.history("team")] == [there]
        assert names(project.queue.next("team", 1, "here")) == [here]
        assert project.queue.undo("team", "there").sample == there


def test_an_answer_that_another_browser_replaced_is_not_taken_back_before_that(photos):
    with open_project(photos) as project:
        project.queue.answer("team", "red-000.png", ["red"], "here")
        project.queue.answer("team", "red-000.png", ["blue"], "there")
        assert project.queue.undo("team", "here") is None
        assert project.queue.label_of("red-000.png").labels == ("blue",)
        project.queue.undo("team", "there")
        assert project.queue.label_of("red-000.png").labels == ("red",)
        assert project.queue.undo("team", "there") is None
        project.queue.undo("team", "here")
        assert project.queue.label_of("red-000.png").labels is None


def test_an_answer_of_no_known_browser_is_taken_back_and_shown_where_it_is_asked(photos):
    with open_project(photos) as project:
        (task,) = project.queue.next("team", 1, "here")
        project.queue.answer("team", task.sample, ["red"])
        project.queue.undo("team", "there")
        assert names(project.queue.next("team", 1, "there")) == [task.sample]
        assert task.sample not in names(project.queue.next("team", 12, "here"))


def test_one_browser_gives_back_what_it_holds_and_no_more(photos):
    with open_project(photos) as project:
        project.queue.next("team", 6, "here")
        kept = names(project.queue.next("team", 6, "there"))
        project.queue.release("team", "here")
        free = names(project.queue.next("bob", 12))
        assert len(free) == 6
        assert not set(free) & set(kept)
