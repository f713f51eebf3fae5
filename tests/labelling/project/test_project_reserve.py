"""Fast teams are given picks while a model is trained."""

from __future__ import annotations

import secrets

import pytest
from small_project import Clock, make_names, make_photos, open_project, truth

from steepest.labelling.project import retraining
from steepest.labelling.project.batches import MOST, size_reserve
from steepest.labelling.project.choosing import count_scored, split_picks
from steepest.labelling.project.retraining import run_round
from steepest.labelling.project.settings import Settings
from steepest.labelling.project.trainings import claim

FAST = {"epochs": 1, "batch_size": 5, "image_size": 12, "validation_share": 0.2}


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def project(tmp_path, clock):
    photos = make_names(tmp_path / "photos", 60)
    with open_project(photos, clock=clock, overlap=2) as project:
        yield project


def begin(project, clock):
    clock.now += 1
    project.trainer.request()
    with project.store.writing() as connection:
        claim(connection, secrets.token_hex(4), clock.now)


def end(project, clock, status="done"):
    clock.now += 1
    with project.store.writing() as connection:
        connection.execute(
            "UPDATE trainings SET status = ?, finished_at = ? WHERE status = 'running'",
            (status, clock.now),
        )


def answer(project, clock, count, *, by="ann"):
    for _ in range(count):
        clock.now += 0.01
        (task,) = project.queue.next(by)
        project.queue.answer(by, task.sample, [truth(task.sample)])


def reserve_of(project, batch_size=4):
    with project.store.reading() as connection:
        return size_reserve(connection, batch_size)


def test_the_batch_is_the_least_that_is_in_reserve(project, clock):
    assert reserve_of(project) == 4
    answer(project, clock, 20)
    begin(project, clock)
    assert reserve_of(project) == 4
    answer(project, clock, 2)
    assert reserve_of(project) == 4


def test_answers_while_a_training_is_under_way_count_and_others_do_not(project, clock):
    begin(project, clock)
    answer(project, clock, 10)
    assert reserve_of(project) == 15
    end(project, clock)
    answer(project, clock, 20)
    assert reserve_of(project) == 15


def test_a_pause_in_one_training_is_forgiven_and_in_two_is_not(project, clock):
    for answers, expected in ((10, 15), (3, 15), (0, 5), (0, 4), (6, 9)):
        begin(project, clock)
        answer(project, clock, answers)
        end(project, clock)
        assert reserve_of(project) == expected


def test_a_training_that_failed_tells_nothing(project, clock):
    begin(project, clock)
    answer(project, clock, 10)
    end(project, clock, "failed")
    assert reserve_of(project) == 4


def test_an_image_that_two_people_label_counts_once_and_a_skip_too(project, clock):
    begin(project, clock)
    answer(project, clock, 6)
    answer(project, clock, 6, by="bob")
    assert reserve_of(project) == 9
    clock.now += 0.01
    (task,) = project.queue.next("bob")
    project.queue.skip("bob", task.sample)
    project.queue.undo("bob")
    assert reserve_of(project) == 11


def test_labels_from_a_file_are_nobodys_answers(project, clock, tmp_path):
    begin(project, clock)
    clock.now += 1
    rows = [f"{state.sample},red" for state in project.queue.samples(limit=50)]
    (tmp_path / "a.csv").write_text("\n".join(["id,label", *rows]))
    assert project.import_labels(tmp_path / "a.csv").added == 50
    assert reserve_of(project) == 4


def test_a_reserve_has_an_end(project, clock, monkeypatch):
    begin(project, clock)
    answer(project, clock, 10)
    monkeypatch.setattr("steepest.labelling.project.batches.MOST", 12)
    assert reserve_of(project) == 12
    assert reserve_of(project, batch_size=MOST) == MOST


def test_a_long_reserve_is_chosen_from_fewer_candidates_for_each():
    def scored(k, **settings):
        return count_scored(Settings(validation_share=0.2, **settings), 10, k)

    assert scored(16) == 160
    assert scored(40) == 160
    assert scored(100) == 400
    assert scored(100, subset_factor=2) == 200
    assert scored(16, subset_factor=2) == 32


@pytest.mark.parametrize(
    "given",
    [
        {"strategy": "batchbald", "strategy_options": {"limit": 40}},
        {"strategy": "margin", "weak_strategy": "batchbald"},
    ],
)
def test_a_strategy_for_small_batches_has_no_long_reserve(given):
    settings = Settings(**given)
    assert split_picks(settings, 20, 20) == (32, 8)
    assert split_picks(settings, 20, 40) == ((32, 8) if "strategy_options" in given else (48, 12))
    assert split_picks(settings, 20, 400) == (32, 8)
    assert split_picks(Settings(strategy="margin"), 20, 400) == (336, 84)


def test_a_team_that_answers_four_batches_in_each_training_keeps_getting_picks(
    tmp_path, monkeypatch
):
    photos = make_photos(tmp_path / "photos", 150)
    learn = retraining.learn
    with open_project(photos, **FAST) as project:

        def label(count):
            ranks = []
            for _ in range(count):
                (task,) = project.queue.next("ann")
                ranks.append(task.rank)
                project.queue.answer("ann", task.sample, [truth(task.sample)])
            return ranks

        during = []

        def learn_slowly(*given, **how):
            during.append(label(20))
            return learn(*given, **how)

        monkeypatch.setattr(retraining, "learn", learn_slowly)
        for _ in range(4):
            project.trainer.request()
            assert run_round(project.store, project.source, secrets.token_hex(4))
            assert None not in label(5)
        picks = project.picks()
    # The first of these trainings is the first that tells how fast the team is.
    assert [None in ranks for ranks in during] == [True, False, False]
    assert len(picks) == 5 + 30
    drawn = [pick for pick in picks if pick.strategy == "validation"]
    assert len(drawn) == 7
