"""Torn, damaged, foreign and missing journals."""

from __future__ import annotations

import pytest
from small_pool import fill, picture

from steepest.core.journal import Journal
from steepest.errors import DroppedEntryWarning, JournalError, PoolError
from steepest.pool import Pool


def test_a_kill_at_any_byte_of_the_last_entry_goes_back_to_the_one_before(tmp_path):
    whole = tmp_path / "whole.jsonl"
    fill(whole)
    content = whole.read_bytes()
    last = content[:-1].rfind(b"\n") + 1
    expected = picture(Pool.replay(whole, 2))
    for size in range(last + 1, len(content)):
        path = tmp_path / str(size) / "pool.jsonl"
        path.parent.mkdir()
        path.write_bytes(content[:size])
        with pytest.warns(DroppedEntryWarning, match=rf"\({size - last} bytes\)"):
            pool = Pool.open(path)
        with pool:
            assert pool.dropped == size - last
            assert picture(pool) == expected
            pool.label([""], [3], cycle=1, who="ann")
        assert path.with_name("pool.jsonl.dropped").read_bytes() == content[last:size] + b"\n"
        assert path.read_bytes().startswith(content[:last])
        assert Pool.replay(path).label_of("") == 3
    assert len(content) - last > 100


def test_a_cut_between_entries_drops_nothing(tmp_path):
    path = tmp_path / "pool.jsonl"
    fill(path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))
    with Pool.open(path) as pool:
        assert pool.dropped == 0
        assert len(list(pool.events())) == 4
    assert not path.with_name("pool.jsonl.dropped").exists()


def test_a_damaged_line_is_an_error_and_the_file_stays_as_it_is(tmp_path):
    path = tmp_path / "pool.jsonl"
    fill(path)
    lines = path.read_bytes().splitlines(keepends=True)
    for number in (2, 3):
        broken = lines.copy()
        broken[number - 1] = broken[number - 1].replace(b'"cycle":0', b'"cycle":1')
        path.write_bytes(b"".join(broken))
        for read in (Pool.open, Pool.replay):
            with pytest.raises(JournalError, match=rf"pool\.jsonl: line {number} is damaged"):
                read(path)
        assert path.read_bytes() == b"".join(broken)


def entry(**change):
    made = {"entry": "query", "time": "2026-01-01T00:00:00+00:00", "who": "a", "cycle": 0}
    return {**made, "ids": [0], **change}


@pytest.mark.parametrize(
    "impossible",
    [
        entry(ids=[9]),
        entry(entry="relabel", labels=[1]),
        entry(entry="label", labels=[]),
        entry(entry="label"),
        entry(entry="merge"),
        entry(time="yesterday"),
        entry(time=None),
        entry(who=3),
        entry(cycle=None),
        entry(entry="skip", reason=1),
        {"entry": ["query"]},
        {},
    ],
)
def test_a_whole_entry_that_cannot_follow_is_an_error_naming_its_line(impossible, tmp_path):
    path = tmp_path / "pool.jsonl"
    journal = Journal(path)
    journal.append({"entry": "pool", "version": 1, "ids": {"range": 3}})
    journal.append(entry(ids=[1]))
    journal.append(impossible)
    before = path.read_bytes()
    with pytest.raises(JournalError, match=r"pool\.jsonl: line 3 cannot follow"):
        Pool.open(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "header",
    [
        {"entry": "pool", "version": 2, "ids": {"range": 3}},
        {"entry": "pool", "ids": {"range": 3}},
        {"entry": "pool", "version": 1, "ids": {"range": 0}},
        {"entry": "pool", "version": 1, "ids": {"list": [1, 1]}},
        {"entry": "pool", "version": 1},
        {"entry": "run", "version": 1},
        {},
    ],
)
def test_a_header_of_another_kind_or_version_is_an_error_naming_the_file(header, tmp_path):
    path = tmp_path / "pool.jsonl"
    Journal(path).append(header)
    for read in (Pool.open, Pool.replay):
        with pytest.raises(JournalError, match=r"pool\.jsonl: ") as kept:
            read(path)
        with pytest.raises(JournalError):  # no lock is held, though the first error is kept
            read(path)
        assert kept.value.args


@pytest.mark.parametrize(
    ("content", "remedy"),
    [
        (b"", "is empty.* restore it from a copy"),
        (b"\x89PNG\r\n\x1a\n", "check the name"),
        (b'{"entry":"pool","ver', "restore the file"),
        (b'{"entry":"query","ids":[0]}\n', "restore the file"),
        (b'{"entry":"pool","version":1,"ids":{"range":3},"crc":"0"}\n', "restore the file"),
    ],
)
def test_a_file_that_is_no_pool_is_left_untouched(content, remedy, tmp_path):
    path = tmp_path / "photo.png"
    path.write_bytes(content)
    for read in (Pool.open, Pool.replay):
        with pytest.raises(JournalError, match=remedy):
            read(path)
    assert path.read_bytes() == content
    assert not path.with_name("photo.png.dropped").exists()


def test_a_missing_file_is_an_error_and_leaves_no_trace(tmp_path):
    for read in (Pool.open, Pool.replay):
        with pytest.raises(PoolError, match="is not there: create the pool"):
            read(tmp_path / "pool.jsonl")
    assert list(tmp_path.iterdir()) == []
