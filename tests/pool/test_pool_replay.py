"""What is on the disk is what the pool says, now and at every earlier moment."""

from __future__ import annotations

import contextlib
import gc
import json
import shutil
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_pool import ODD_IDS, fill, picture

from steepest.core.journal import Journal, read_journal
from steepest.errors import (
    DroppedEntryWarning,
    InputError,
    PoolError,
    RunFolderError,
    SteepestError,
)
from steepest.pool import Pool, State, Verb
from steepest.pool.ledger import MemoryLedger

CALLS = st.lists(
    st.tuples(
        st.sampled_from(list(Verb)),
        st.lists(st.integers(0, 4), max_size=3, unique=True),
        st.one_of(st.integers(), st.text(max_size=3), st.lists(st.integers(), max_size=2)),
        st.integers(0, 3),
    ),
    max_size=12,
)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(CALLS)
def test_replay_equals_the_live_pool_after_every_call(calls):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "pool.jsonl"
        with Pool.create(range(4), path) as pool:
            pictures = [picture(pool)]
            for verb, ids, label, cycle in calls:
                labels = ([label] * len(ids),) if verb in {"label", "relabel"} else ()
                with contextlib.suppress(SteepestError):
                    getattr(pool, verb)(ids, *labels, cycle=cycle, who="ann")
                if picture(pool) != pictures[-1]:
                    pictures.append(picture(pool))
        assert len(read_journal(path)[0]) == len(pictures)
        for until, expected in enumerate(pictures):
            assert picture(Pool.replay(path, until)) == expected
        assert picture(Pool.replay(path)) == pictures[-1]
        with Pool.open(path) as reopened:
            assert picture(reopened) == pictures[-1]


def test_texts_of_every_kind_come_back_as_they_were(tmp_path):
    fill(tmp_path / "pool.jsonl")
    with Pool.open(tmp_path / "pool.jsonl") as pool:
        assert pool.ids() == ODD_IDS
        assert pool.label_of("zwölf 十二.jpg") == "chat\nnoir"
        assert pool.label_of("line\nbreak") == [1, 2]
        assert pool.history("a/b.png")[1].reason == "zu dunkel"
        assert pool.dropped == 0


@pytest.mark.parametrize(
    ("ids", "stored"),
    [
        (range(1000), {"range": 1000}),
        ([0, 1, 2], {"range": 3}),
        ([0], {"range": 1}),
        ([1, 0], {"list": [1, 0]}),
        (range(1, 4), {"list": [1, 2, 3]}),
        (["0", "1"], {"list": ["0", "1"]}),
    ],
)
def test_the_header_is_compact_for_a_range_and_round_trips(ids, stored, tmp_path):
    path = tmp_path / "pool.jsonl"
    Pool.create(ids, path).close()
    assert read_journal(path) == ([{"entry": "pool", "version": 1, "ids": stored}], b"")
    assert Pool.replay(path).ids() == list(ids)


def test_an_entry_says_what_when_who_and_in_which_cycle(tmp_path):
    path = tmp_path / "pool.jsonl"
    with Pool.create(range(9), path) as pool:
        pool.label([5, 3], [1, "b"], cycle=2, who="ann")
        event = pool.history(3)[0]
    entry = read_journal(path)[0][1]
    time = entry.pop("time")
    assert entry == {"entry": "label", "who": "ann", "cycle": 2, "ids": [5, 3], "labels": [1, "b"]}
    assert datetime.fromisoformat(time) == event.time
    assert time.endswith("+00:00")
    assert len(time.split(".")[1]) == len("123456+00:00")


def test_the_entry_is_on_the_disk_before_the_pool_changes(tmp_path, monkeypatch):
    path = tmp_path / "pool.jsonl"
    pool = Pool.create(range(3), path)
    seen = []

    def fail(journal, entry):
        seen.append(pool.state(1))
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "append", fail)
        with pytest.raises(OSError, match="No space"):
            pool.query([1], cycle=0, who="ann")
    assert seen == [State.UNLABELLED]
    assert pool.state(1) is State.UNLABELLED
    with pytest.raises(PoolError, match=r"cut short .* close it and open it again"):
        pool.query([1], cycle=0, who="ann")
    pool.close()
    with Pool.open(path) as again:
        again.query([1], cycle=0, who="ann")


def test_an_interrupt_after_the_write_cannot_write_the_same_change_twice(tmp_path, monkeypatch):
    path = tmp_path / "pool.jsonl"
    pool = Pool.create(range(3), path)

    def interrupt(ledger, entry):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(MemoryLedger, "apply", interrupt)
        with pytest.raises(KeyboardInterrupt):
            pool.query([1], cycle=0, who="ann")
    with pytest.raises(PoolError, match="cut short"):
        pool.query([1], cycle=0, who="ann")
    pool.close()
    with Pool.open(path) as again:
        assert again.state(1) is State.QUERIED
        assert len(again.history(1)) == 1


def test_a_replay_neither_changes_nor_holds_the_file(tmp_path):
    path = tmp_path / "pool.jsonl"
    fill(path)
    path.write_bytes(path.read_bytes() + b'{"entry":"la')
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    replayed = Pool.replay(path)
    assert replayed.dropped == len(b'{"entry":"la')
    with pytest.raises(PoolError, match="is a replay and cannot change; open it"):
        replayed.query([""], cycle=0, who="ann")
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    with pytest.warns(DroppedEntryWarning):
        Pool.open(path).close()


@pytest.mark.parametrize("until", [-1, 4])
def test_a_replay_beyond_the_entries_is_refused(until, tmp_path):
    fill(tmp_path / "pool.jsonl")
    with pytest.raises(InputError, match="use 0 to 3"):
        Pool.replay(tmp_path / "pool.jsonl", until)


def test_an_existing_file_is_not_overwritten(tmp_path):
    path = tmp_path / "pool.jsonl"
    fill(path)
    before = path.read_bytes()
    with pytest.raises(PoolError, match="open it, or choose another file"):
        Pool.create(range(3), path)
    assert path.read_bytes() == before
    Pool.open(path).close()


def test_what_an_interrupted_creation_left_behind_is_no_hindrance(tmp_path):
    path = tmp_path / "deep" / "pool.jsonl"
    path.parent.mkdir()
    path.with_name("pool.jsonl.new").write_bytes(b'{"entry":"po')
    Pool.create(range(3), path).close()
    assert len(Pool.replay(path)) == 3


def test_a_pool_is_held_until_it_is_closed(tmp_path):
    path = tmp_path / "pool.jsonl"
    pool = Pool.create(range(3), path)
    with pytest.raises(RunFolderError, match=r"pool\.jsonl is in use by another process"):
        Pool.open(path)
    pool.close()
    with pytest.raises(PoolError, match="is closed; open it again"):
        pool.query([0], cycle=0, who="ann")
    assert pool.state(0) is State.UNLABELLED
    pool.close()
    second = Pool.open(path)
    with pytest.raises(RunFolderError, match="in use"):
        Pool.open(path)
    del second
    gc.collect()
    Pool.open(path).close()


def test_a_copy_of_the_journal_alone_is_the_whole_pool(tmp_path):
    fill(tmp_path / "pool.jsonl")
    (tmp_path / "elsewhere").mkdir()
    copy = shutil.copy(tmp_path / "pool.jsonl", tmp_path / "elsewhere" / "copy.jsonl")
    assert picture(Pool.replay(copy)) == picture(Pool.replay(tmp_path / "pool.jsonl"))


def test_every_line_is_one_json_object(tmp_path):
    fill(tmp_path / "pool.jsonl")
    lines = (tmp_path / "pool.jsonl").read_text(encoding="utf-8").split("\n")
    assert [json.loads(line)["entry"] for line in lines[:-1]] == ["pool", "query", "skip", "label"]
