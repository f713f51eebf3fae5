"""A loop that is killed at any moment goes on, and ends as if nothing had happened."""

from __future__ import annotations

import json

import pytest
from loop_parts import Teacher, Trainer, make_points

import steepest
from steepest.core.journal import Journal
from steepest.errors import DroppedEntryWarning, JournalError, RunFolderError, SettingWarning

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


def test_a_half_written_round_is_made_again(tmp_path, whole):
    with make(tmp_path / "a") as loop:
        loop.run(3, 5)
    path = tmp_path / "a" / "rounds.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.warns(DroppedEntryWarning):
        loop = make(tmp_path / "a")
    with loop:
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
    assert steepest.Pool.replay(tmp_path / "a" / "labels.jsonl").labelled()[1] == [0, 2, 2, 0]


def test_a_folder_has_one_loop_and_one_process_at_a_time(tmp_path):
    with make(tmp_path / "a"), pytest.raises(RunFolderError, match="in use"):
        make(tmp_path / "a")
    with pytest.raises(RunFolderError, match="other samples"):
        make(tmp_path / "a", ids=range(1, 61))
    (tmp_path / "file").touch()
    with pytest.raises(RunFolderError, match="choose a folder"):
        make(tmp_path / "file")
    (tmp_path / "a" / "labels.jsonl").unlink()
    (tmp_path / "a" / "rounds.jsonl").write_text("")
    with pytest.raises(RunFolderError, match=r"no labels\.jsonl"):
        make(tmp_path / "a")


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("rounds.jsonl", []),
        ("rounds.jsonl", [1, 2]),
        ("rounds.jsonl", [0, 0, 1, 2]),
        ("labels.jsonl", [0]),
        ("labels.jsonl", [0, 1, 2, 3, 4]),
    ],
)
def test_a_journal_that_lacks_what_the_other_tells_of_is_refused(tmp_path, name, kept):
    with make(tmp_path / "a") as loop:
        loop.run(3, 5)
    path = tmp_path / "a" / name
    whole, entries = path.read_bytes(), Journal(path).entries
    path.write_bytes(b"")
    for i in kept:  # Each whole by itself, as lines of older versions are.
        Journal(path).append(entries[i])
    for _ in range(2):  # The second shows that the first let go of the folder.
        with pytest.raises(RunFolderError, match=rf"lines of {name} are missing or twice"):
            make(tmp_path / "a")
    path.write_bytes(whole)
    make(tmp_path / "a").close()


@pytest.mark.parametrize("name", ["rounds.jsonl", "labels.jsonl"])
def test_a_journal_without_a_line_in_the_middle_is_refused(tmp_path, name):
    with make(tmp_path / "a") as loop:
        loop.run(3, 5)
    path = tmp_path / "a" / name
    lines = path.read_bytes().splitlines(keepends=True)
    for gone in range(1, len(lines) - 1):
        path.write_bytes(b"".join(lines[:gone] + lines[gone + 1 :]))
        before = path.read_bytes()
        for _ in range(2):
            with pytest.raises(JournalError, match=rf"{name}: line {gone + 1} is damaged, or"):
                make(tmp_path / "a")
        assert path.read_bytes() == before
    path.write_bytes(b"".join(lines))
    make(tmp_path / "a").close()


def test_the_files_of_a_folder_are_as_documented(tmp_path):
    with make(tmp_path / "a") as loop:
        loop.run(1, 5)
    first = json.loads((tmp_path / "a" / "rounds.jsonl").read_text().splitlines()[0])
    assert set(first) == {
        "number", "labelled", "learnt_from", "metrics", "asked", "strategy", "seconds", "chain",
    }  # fmt: skip
    assert steepest.Pool.replay(tmp_path / "a" / "labels.jsonl").counts()["labelled"] == 5
