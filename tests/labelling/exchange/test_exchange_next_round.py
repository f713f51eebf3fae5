"""Rounds: what waits counts and is shown again, two who choose at once do not mix."""

from __future__ import annotations

import csv
import json

import pytest
from small_exchange import CLASSES, IDS, journal, make_folder

from steepest.errors import InputError, PoolError, RunFolderError
from steepest.labelling.exchange.export import export_text
from steepest.labelling.exchange.folder import LoopFolder, Settings, next_round
from steepest.labelling.exchange.ingest import ingest
from steepest.labelling.exchange.next_round import take_round
from steepest.labelling.exchange.rounds import Round
from steepest.pool import State
from steepest.selecting.selection import Selection

SETTINGS = Settings("classification", CLASSES, "photos")


class Chooser:
    """Chooses the first samples that are free."""

    def __init__(self):
        self.calls = 0

    def __call__(self, pool, k):
        self.calls += 1
        free = pool.ids(State.UNLABELLED)[:k]
        return Selection(tuple(free), (1.0,) * len(free), "margin")


def take(folder, choose, k=2, request="one", **more):
    asked = {"model": request}
    return take_round(folder, IDS, asked, k, choose, lambda ids: (0,) * len(ids), **more)


def new_ids(taken):
    return () if taken.new is None else taken.new.picks.ids


def waiting_ids(taken):
    return [(number, part.picks.ids) for number, part in taken.waiting]


def test_rounds_leave_out_what_was_labelled_or_skipped_and_count_what_waits(tmp_path, write):
    folder, choose = LoopFolder(tmp_path / "loop", SETTINGS), Chooser()
    taken = take(folder, choose)
    assert (new_ids(taken), taken.number, taken.waiting) == (("a.png", "b, c.png"), 0, ())
    ingest(write("l.csv", "id,label\na.png,cat\n"), folder)
    taken = take(folder, choose)
    assert (new_ids(taken), taken.number) == (("ä d.png",), 1)
    assert (waiting_ids(taken), taken.waiting_count) == ([(0, ("b, c.png",))], 1)
    pool = folder.read_pool()
    assert pool.counts()[State.QUERIED] == 2
    assert folder.rounds()[1].picks.ids == ("ä d.png",)
    taken = take(folder, choose)
    assert waiting_ids(taken) == [(0, ("b, c.png",)), (1, ("ä d.png",))]


def test_nothing_is_chosen_while_enough_waits(tmp_path):
    folder, choose = LoopFolder(tmp_path / "loop", SETTINGS), Chooser()
    first = take(folder, choose)
    before = journal(folder)
    for k, request in ((2, "one"), (1, "one"), (0, "one"), (2, "two")):
        taken = take(folder, choose, k, request)
        assert (taken.new, taken.number, taken.waiting) == (None, 0, ((0, first.new),))
    assert (choose.calls, journal(folder)) == (1, before)
    assert new_ids(take(folder, choose, more=True)) == ("ä d.png", "e.png")


def test_the_last_samples_of_a_pool_are_taken_with_what_waits(tmp_path, write):
    folder, choose = LoopFolder(tmp_path / "loop", SETTINGS), Chooser()
    take(folder, choose, 3)
    taken = take(folder, choose, 9)
    assert (new_ids(taken), taken.waiting_count) == (("e.png", "f.png"), 3)
    assert take(folder, choose, 9).waiting_count == 5


@pytest.mark.parametrize("k", [0, -1])
def test_less_than_one_sample_is_refused_where_nothing_waits(tmp_path, k):
    with pytest.raises(InputError, match="ask for 1 or more"):
        take(LoopFolder(tmp_path / "loop", SETTINGS), Chooser(), k)
    assert not (tmp_path / "loop").exists()


def test_an_answer_that_was_taken_back_waits_though_no_round_asked(tmp_path):
    folder, choose = make_folder(tmp_path), Chooser()
    with folder.open_pool() as pool:
        for sample in ("f.png", "a.png"):
            pool.label([sample], [0], cycle=0, who="label-studio:ana")
        for sample in ("f.png", "a.png"):
            pool.unlabel([sample], cycle=0, who="label-studio:ana")
            pool.query([sample], cycle=0, who="label-studio:ana")
    taken = take(folder, choose, 0)
    assert waiting_ids(taken) == [(0, ("f.png",)), (0, tuple(IDS[:3]))]
    rows = list(csv.DictReader(export_text("csv", taken.waiting).splitlines()))
    assert [row["score"] for row in rows] == ["", "9.0", "8.0", "7.0"]
    lines = export_text("jsonl", taken.waiting).splitlines()
    assert json.loads(lines[0])["score"] is None


def test_what_waits_keeps_its_scores_and_guesses(tmp_path, write):
    folder = LoopFolder(tmp_path / "loop", SETTINGS)
    folder.begin(IDS)
    folder.commit(Round(Selection(tuple(IDS[:3]), (3.0, 2.0, 1.0), "margin"), (0, 1, 2)))
    ingest(write("l.csv", "id,label\na.png,cat\n"), folder)
    ((_, part),) = take(folder, Chooser(), 0).waiting
    assert (part.picks.scores, part.guesses) == ((2.0, 1.0), (1, 2))


def test_a_crash_before_the_commit_leaves_no_round(tmp_path, monkeypatch):
    folder, choose = LoopFolder(tmp_path / "loop", SETTINGS), Chooser()

    def crash(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("steepest.pool.pool.Pool.query", crash)
    with pytest.raises(KeyboardInterrupt):
        take(folder, choose)
    monkeypatch.undo()
    again = LoopFolder.open(tmp_path / "loop")
    assert again.rounds() == {}
    assert new_ids(take(again, choose)) == ("a.png", "b, c.png")


def test_a_refused_choice_makes_no_folder(tmp_path):
    def refuse(*_):
        raise InputError("k is too large")

    with pytest.raises(InputError):
        take(LoopFolder(tmp_path / "loop", SETTINGS), refuse)
    assert not (tmp_path / "loop").exists()


@pytest.mark.parametrize("fresh", [True, False])
def test_who_comes_second_of_two_is_told_to_try_again(tmp_path, fresh):
    folder = LoopFolder(tmp_path / "loop", SETTINGS) if fresh else make_folder(tmp_path)

    def slow(pool, k):
        assert take(folder, Chooser(), 1, more=True).new is not None
        return Selection((IDS[-1],), (1.0,), "margin")

    with pytest.raises(PoolError, match=r"loop: another command chose .*; run this one again"):
        take(folder, slow, 4)
    assert next_round(folder.read_pool()) == (1 if fresh else 2)
    assert "f.png" in folder.read_pool().ids(State.UNLABELLED)


def test_a_pick_that_was_labelled_meanwhile_is_told_like_that(tmp_path, write):
    folder = make_folder(tmp_path)

    def slow(pool, k):
        ingest(write("l.csv", "id,label\nf.png,cat\n"), folder)
        return Selection((IDS[-1],), (1.0,), "margin")

    with pytest.raises(PoolError, match="run this one again"):
        take(folder, slow, 4)


def test_another_loop_that_was_begun_meanwhile_is_refused(tmp_path):
    others = Settings("classification", ("one", "two"), "photos")

    def slow(pool, k):
        LoopFolder(tmp_path / "loop", others).begin(IDS)
        return Chooser()(pool, k)

    with pytest.raises(RunFolderError, match="classes one, two"):
        take(LoopFolder(tmp_path / "loop", SETTINGS), slow)


def test_only_one_may_choose_at_a_time_while_labels_come_in(tmp_path, write):
    folder = make_folder(tmp_path)
    with folder.hold():
        with pytest.raises(RunFolderError, match=r"in use .*run this one again"):
            folder.hold()
        assert ingest(write("l.csv", "id,label\na.png,cat\n"), folder).new == 1
    folder.hold().release()
