"""A loop that is killed at any moment goes on, and ends as if nothing had happened."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from loop_parts import Teacher, Trainer, make_points

import steepest
from steepest.errors import RunFolderError, SettingWarning
from steepest.labelling.project import open_pool

POINTS, CLASSES = make_points()


class Killed(BaseException):
    """Stands for the end of the process: nothing of ours may catch it and go on."""


def make(folder, **options):
    trainer = Trainer(POINTS)
    given = {"fit": trainer.fit, "label": Teacher(CLASSES), "strategy": "margin", "progress": False}
    given["evaluate"] = lambda: len(trainer.calls[-1][0])
    return steepest.ActiveLoop(POINTS, folder=folder, **{**given, **options})


def essence(records):
    return [(r.number, r.labelled, r.learnt_from, r.metrics, r.asked, r.strategy) for r in records]


@pytest.fixture
def whole(tmp_path):
    with make(tmp_path / "whole") as loop:
        return essence(loop.run(3, 5))


def kill_at(stage, count):
    """Return callables of which one dies when it is called for the count-th time."""
    trainer, teacher = Trainer(POINTS), Teacher(CLASSES)
    left = {stage: count}

    def dying(name, function):
        def call(*arguments):
            left[name] = left.get(name, -1) - 1
            if left[name] == 0:
                raise Killed
            return function(*arguments)

        return call

    def evaluate():
        return len(trainer.calls[-1][0])

    return {
        "fit": dying("fit", trainer.fit),
        "label": dying("label", teacher),
        "evaluate": dying("evaluate", evaluate),
    }


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("stage", ["fit", "label", "evaluate"])
def test_a_killed_loop_ends_as_the_whole_one(tmp_path, whole, stage, count):
    with make(tmp_path / "a", **kill_at(stage, count)) as loop, pytest.raises(Killed):
        loop.run(3, 5)
    teacher = Teacher(CLASSES)
    with make(tmp_path / "a", label=teacher) as loop:
        known = set(loop.pool.labelled()[0])
        assert essence(loop.run(3, 5)) == whole
    assert not known & set(teacher.asked)


def test_labels_that_are_yielded_are_kept_one_by_one(tmp_path, whole):
    def label(ids):
        for place, i in enumerate(ids):
            if place == 3:
                raise Killed
            yield i, CLASSES[i]

    with make(tmp_path / "a", label=label) as loop, pytest.raises(Killed):
        loop.run(3, 5)
    teacher = Teacher(CLASSES)
    with make(tmp_path / "a", label=teacher) as loop:
        assert len(loop.pool.labelled()[0]) == 3
        assert essence(loop.run(3, 5)) == whole
    assert len(teacher.asked) == 12


def test_a_round_that_was_not_written_is_made_again(tmp_path, whole, monkeypatch):
    def die(*_):
        raise Killed

    with make(tmp_path / "a") as loop:
        loop.run(2, 5)
        monkeypatch.setattr("steepest.labelling.project.ledger.ProjectPool.add_round", die)
        with pytest.raises(Killed):
            loop.run(3, 5)
    monkeypatch.undo()
    with make(tmp_path / "a") as loop:
        assert len(loop.records) == 2
        assert essence(loop.run(3, 5)) == whole


def test_a_loop_by_hand_goes_on_with_what_was_waiting(tmp_path):
    with make(tmp_path / "a") as loop:
        asked = loop.ask(4).ids
        loop.tell({asked[1]: 2})
    with make(tmp_path / "a") as loop:
        assert loop.waiting == (asked[0], asked[2], asked[3])
        assert not set(loop.ask(6).ids) & set(asked)


def test_given_labels_are_taken_once_and_corrections_stay(tmp_path):
    with make(tmp_path / "a", labels={0: 0, 1: 1}) as loop:
        loop.pool.relabel([1], [2], cycle=1, who="ben")
    with make(tmp_path / "a", labels={0: 0, 1: 1, 2: 2}) as loop:
        assert loop.pool.labelled() == ([0, 1, 2], [0, 2, 2])
    with pytest.warns(SettingWarning, match=r"says 0 of sample 2, .* 2, which stays: to"):
        make(tmp_path / "a", labels={0: 0, 1: 1, 2: 0, 3: 0}).close()
    with open_pool(tmp_path / "a") as pool:
        assert pool.labelled()[1] == [0, 2, 2, 0]


def test_a_folder_has_one_loop_and_one_process_at_a_time(tmp_path):
    with make(tmp_path / "a"), pytest.raises(RunFolderError, match="in use"):
        make(tmp_path / "a")
    with pytest.raises(RunFolderError, match="other samples"):
        make(tmp_path / "a", ids=range(1, 61))
    (tmp_path / "file").touch()
    with pytest.raises(RunFolderError, match="choose a folder"):
        make(tmp_path / "file")
    (tmp_path / "a" / "labels.sqlite").unlink()
    with pytest.raises(RunFolderError, match="is gone, but a project was here"):
        make(tmp_path / "a")


def test_a_loop_of_an_earlier_version_goes_on(tmp_path):
    with zipfile.ZipFile(Path(__file__).parents[1] / "labelling" / "old_folders.zip") as archive:
        archive.extractall(tmp_path)
    points, classes = make_points(30)
    trainer = Trainer(points)
    with steepest.ActiveLoop(
        points, fit=trainer.fit, label=Teacher(classes), folder=tmp_path / "numbers", progress=False
    ) as loop:
        assert [record.number for record in loop.records] == [1, 2]
        assert len(loop.waiting) == 1
        before = dict(zip(*loop.pool.labelled(), strict=True))
        assert loop.run(3, 4)[-1].number == 3
        assert before.items() <= dict(zip(*loop.pool.labelled(), strict=True)).items()
    with steepest.ActiveLoop(
        points, fit=lambda *_: None, predict=trainer.predict, folder=tmp_path / "texts"
    ) as loop:
        assert set(loop.pool.labelled()[1]) == {"cat", "dog"}


def test_a_folder_is_a_project(tmp_path):
    with make(tmp_path / "a") as loop:
        loop.run(1, 5)
    with open_pool(tmp_path / "a", "loop") as pool:
        assert set(pool.rounds()[1]) == {
            "number", "labelled", "learnt_from", "metrics", "asked", "strategy", "seconds",
        }  # fmt: skip
        assert pool.counts()["labelled"] == 5


@pytest.mark.parametrize("ids", [None, [f"{i}.png" for i in range(60)]])
@pytest.mark.parametrize("emptied", [False, True])
def test_a_project_that_lost_its_file_is_not_begun_anew(tmp_path, ids, emptied):
    with make(tmp_path / "loop", ids=ids) as loop:
        loop.tell(dict.fromkeys(loop.ask(5).ids, 0))
    for file in (tmp_path / "loop").glob("labels.sqlite*"):
        file.unlink()
    if emptied:
        ((tmp_path / "loop") / "labels.sqlite").touch()
    with pytest.raises(RunFolderError, match=f"is {'empty' if emptied else 'gone'}"):
        make(tmp_path / "loop", ids=ids)
    assert not any(file.stat().st_size for file in (tmp_path / "loop").glob("labels.sqlite*"))
