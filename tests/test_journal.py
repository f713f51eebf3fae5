"""Entries survive what they hold, and a crash costs the last one at most."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from steepest.errors import DroppedEntryWarning, JournalError
from steepest.journal import Journal, read_journal

ENTRIES: list[dict[str, Any]] = [
    {},
    {"text": 'ünï "quoted" \\ 十二 \u2028 \U0001f600\nnext line\r\x00\x7f'},
    {"floats": [0.1, 1e-300, 5e-324, 1.7976931348623157e308, -0.0, 3.0, math.pi]},
    {"nested": {"a": [{"b": [None, True, False]}, [], {}], "": 2**70}, "crc32": "not ours"},
    {"": ""},
]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs" / "journal.jsonl"


def write(path, entries):
    journal = Journal(path)
    for entry in entries:
        journal.append(entry)
    return path.read_bytes()


@pytest.mark.parametrize("entry", ENTRIES)
def test_an_entry_comes_back_as_it_was(path, entry):
    write(path, [entry])
    entries, torn = read_journal(path)
    assert entries == [entry]
    assert json.dumps(entries) == json.dumps([entry])  # also -0.0, 3.0 against 3, and key order
    assert torn == b""
    assert Journal(path).entries == [entry]


def test_entries_are_kept_in_order_over_several_openings(path):
    for number, entry in enumerate(ENTRIES, start=1):
        journal = Journal(path)
        journal.append(entry)
        assert journal.entries == ENTRIES[:number]
    assert read_journal(path) == (ENTRIES, b"")


def test_each_line_is_json_with_the_checksum_last(path):
    lines = write(path, ENTRIES).decode().split("\n")
    assert lines.pop() == ""
    assert len(lines) == len(ENTRIES)
    for line, entry in zip(lines, ENTRIES, strict=True):
        parsed = json.loads(line)
        assert list(parsed) == [*entry, "crc"]
        assert len(parsed["crc"]) == 8


def test_a_missing_file_is_an_empty_journal_and_is_not_made_by_reading(path):
    assert read_journal(path) == ([], b"")
    assert Journal(path).entries == []
    assert not path.exists()


def test_a_folder_in_the_place_of_the_file_is_a_clear_error(path):
    path.mkdir(parents=True)
    with pytest.raises(JournalError, match=r"journal\.jsonl: cannot be read"):
        read_journal(path)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_values_that_json_lacks_are_refused_and_leave_no_line(path, value):
    journal = Journal(path)
    journal.append({"score": 1.0})
    before = path.read_bytes()
    with pytest.raises(ValueError, match="not JSON compliant"):
        journal.append({"score": value})
    assert path.read_bytes() == before
    assert journal.entries == [{"score": 1.0}]


def test_reading_reports_a_torn_last_line_and_changes_nothing(path):
    whole = write(path, ENTRIES)
    path.write_bytes(whole + b'{"text":"\xc3')
    assert read_journal(path) == (ENTRIES, b'{"text":"\xc3')
    assert path.read_bytes() == whole + b'{"text":"\xc3'
    assert not path.with_name("journal.jsonl.dropped").exists()


def test_a_torn_last_line_is_set_aside_and_writing_goes_on(path):
    whole = write(path, ENTRIES)
    dropped = path.with_name("journal.jsonl.dropped")
    kept = b""
    for torn in (b"{", b'{"text":"\xc3', b'{"a":1,"crc":"00000000"}\n'):
        path.write_bytes(whole + torn)
        with pytest.warns(DroppedEntryWarning, match=rf"\({len(torn)} bytes\).*journal\.jsonl\.dr"):
            journal = Journal(path)
        kept += torn.rstrip(b"\n") + b"\n"
        assert dropped.read_bytes() == kept
        assert path.read_bytes() == whole
        assert journal.entries == ENTRIES
        journal.append({"after": 1})
        assert read_journal(path) == ([*ENTRIES, {"after": 1}], b"")


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"null",
        b"[]",
        b'{"a":1}',
        b'{"a":2,"crc":"2bdb0123"}',
        b"\xff\xfe",
        b'{"a":1,"crc":null}',
    ],
)
def test_damage_before_the_last_line_is_an_error_that_repairs_nothing(path, damage):
    lines = write(path, [{"n": 1}, {"n": 2}, {"n": 3}]).split(b"\n")
    lines[1] = damage
    path.write_bytes(b"\n".join(lines))
    for read in (read_journal, Journal):
        with pytest.raises(JournalError, match=r"journal\.jsonl: line 2 is damaged.*entry 1"):
            read(path)
    assert path.read_bytes() == b"\n".join(lines)
    assert not path.with_name("journal.jsonl.dropped").exists()


def test_any_changed_byte_of_an_entry_is_noticed(path):
    whole = write(path, [{"cycle": 12, "accuracy": 0.5, "who": "ann"}, {"last": True}])
    first = whole.index(b"\n")
    for place in range(first):
        changed = bytearray(whole)
        changed[place] ^= 1
        path.write_bytes(changed)
        with pytest.raises(JournalError, match="is damaged"):
            read_journal(path)


def test_two_damaged_lines_at_the_end_are_not_taken_for_a_crash(path):
    whole = write(path, [{"n": 1}])
    path.write_bytes(whole + b'{"n":2,"crc":"0"}\n{"n":')
    with pytest.raises(JournalError, match="line 2 is damaged"):
        Journal(path)
