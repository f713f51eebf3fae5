from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from small_project import Clock, make_names, open_project, truth

from steepest.errors import InputError


@pytest.fixture
def photos(tmp_path):
    return make_names(tmp_path / "photos", 12)


def label_all(project, annotator):
    seen = []
    while tasks := project.queue.next(annotator):
        sample = tasks[0].sample
        project.queue.answer(annotator, sample, [truth(sample)])
        seen.append(sample)
    return seen


def test_everyone_is_asked_about_every_sample_exactly_once(photos):
    with open_project(photos) as project:
        seen = label_all(project, "ann")
        assert sorted(seen) == sorted(path.name for path in photos.glob("*.png"))
        assert project.queue.next("bob") == []
        assert project.progress().labelled == 12
        assert project.progress().open == 0


def test_asking_again_gives_the_same_sample_and_others_get_another(photos):
    with open_project(photos) as project:
        (first,) = project.queue.next("ann")
        assert project.queue.next("ann")[0].sample == first.sample
        assert project.queue.next("bob")[0].sample != first.sample
        assert project.queue.next("ann", 3)[0].sample == first.sample
        assert len({t.sample for t in project.queue.next("ann", 3)}) == 3


def test_a_lease_that_runs_out_lets_others_have_the_sample(photos):
    clock = Clock()
    with open_project(photos, clock=clock, lease_seconds=60.0) as project:
        held = {task.sample for task in project.queue.next("ann", 12)}
        assert len(held) == 12
        clock.now += 59.0
        assert project.queue.next("bob") == []
        clock.now += 1.0
        assert project.queue.next("bob")[0].sample in held


@pytest.mark.parametrize("ahead", [180.0, 3605.0])
def test_a_clock_that_was_far_ahead_keeps_no_sample_for_ever(photos, ahead):
    clock = Clock(now=1e9)
    with open_project(photos, clock=clock, lease_seconds=60.0) as project:
        held = {task.sample for task in project.queue.next("ann", 12)}
        clock.now -= 5.0
        assert project.queue.next("bob") == []
        clock.now -= ahead
        assert project.queue.next("bob")[0].sample in held


def test_asking_renews_a_lease(photos):
    clock = Clock()
    with open_project(photos, clock=clock, lease_seconds=60.0) as project:
        project.queue.next("ann", 12)
        clock.now += 50.0
        assert project.queue.next("ann", 12)[0].expires == clock.now + 60.0
        clock.now += 50.0
        assert project.queue.next("bob") == []


def test_an_answer_after_the_lease_ran_out_is_taken_too(photos):
    clock = Clock()
    with open_project(photos, clock=clock, lease_seconds=1.0) as project:
        (task,) = project.queue.next("ann")
        clock.now += 5.0
        project.queue.next("bob")
        project.queue.answer("ann", task.sample, ["red"])
        assert project.queue.label_of(task.sample).labels == ("red",)


def test_what_is_given_back_goes_to_others_at_once(photos):
    with open_project(photos) as project:
        project.queue.next("ann", 12)
        assert project.queue.next("bob") == []
        project.queue.release("ann")
        assert len(project.queue.next("bob", 12)) == 12


def test_with_overlap_each_sample_goes_to_so_many_different_people(photos):
    with open_project(photos, overlap=2) as project:
        given = Counter()
        for person in ("ann", "bob", "cid"):
            given.update(task.sample for task in project.queue.next(person, 12))
        assert set(given.values()) == {2}
        assert len(given) == 12


def test_what_one_person_began_is_offered_to_the_second_first(photos):
    with open_project(photos, overlap=2) as project:
        (task,) = project.queue.next("ann")
        project.queue.answer("ann", task.sample, ["red"])
        assert project.queue.next("bob")[0].sample == task.sample
        assert project.queue.next("ann")[0].sample != task.sample


def test_a_skipped_sample_is_never_shown_to_that_person_and_last_to_others(photos):
    with open_project(photos) as project:
        (task,) = project.queue.next("ann")
        project.queue.skip("ann", task.sample)
        assert task.sample not in label_all(project, "ann")
        assert [t.sample for t in project.queue.next("bob")] == [task.sample]
        assert project.progress().skipped == 1


def test_eight_threads_share_the_work_without_loss_or_repetition(tmp_path):
    photos = make_names(tmp_path / "photos", 160)
    with open_project(photos) as project:
        with ThreadPoolExecutor(8) as pool:
            parts = list(pool.map(lambda n: label_all(project, f"person {n}"), range(8)))
        seen = Counter(sample for part in parts for sample in part)
        assert len(seen) == 160
        assert set(seen.values()) == {1}
        assert project.progress().labelled == 160
        history = project.queue.history(limit=1000)
        assert len(history) == 160
        assert all(entry.labels == (truth(entry.sample),) for entry in history)


def test_eight_threads_with_overlap_label_every_sample_three_times(tmp_path):
    photos = make_names(tmp_path / "photos", 30)
    with open_project(photos, overlap=3) as project:
        with ThreadPoolExecutor(8) as pool:
            parts = list(pool.map(lambda n: label_all(project, f"person {n}"), range(8)))
        seen = Counter(sample for part in parts for sample in part)
        assert len(seen) == 30
        assert set(seen.values()) == {3}


def test_the_order_depends_on_the_seed_alone(tmp_path):
    orders = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        photos = make_names(tmp_path / name, 12)
        with open_project(photos, seed=seed) as project:
            orders.append([task.sample for task in project.queue.next("ann", 12)])
    assert orders[0] == orders[1] != orders[2]


@pytest.mark.parametrize("name", ["", " ann", "a" * 65, "import", "a\nb"])
def test_names_that_cannot_be_a_persons_are_refused(photos, name):
    with open_project(photos) as project, pytest.raises(InputError):
        project.queue.next(name)


def test_a_wrong_number_of_samples_is_refused(photos):
    with open_project(photos) as project, pytest.raises(InputError, match="1 to 100"):
        project.queue.next("ann", 0)
