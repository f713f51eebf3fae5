"""Entries survive what they hold, and a crash costs the last one at most."""

from __future__ import annotations

import json
import math
import zlib
from typing import Any

import pytest

from steepest.core.journal import Journal, read_journal
from steepest.errors import DroppedEntryWarning, JournalError

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


def test_each_line_is_json_with_the_digest_last(path):
    lines = write(path, ENTRIES).decode().split("\n")
    assert lines.pop() == ""
    assert len(lines) == len(ENTRIES)
    for line, entry in zip(lines, ENTRIES, strict=True):
        parsed = json.loads(line)
        assert list(parsed) == [*entry, "chain"]
        assert len(parsed["chain"]) == 16


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
    for torn in (b"{", b'{"text":"\xc3', b'{"a":1,"chain":"0123456789abcdef"'):
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
        b'{"a":1,"chain":null}',
        b'{"a":NaN,"chain":"0123456789abcdef"}',
        b'{"a":"\\ud800","chain":"0123456789abcdef"}',
        b'{"a":' + b"[" * 900 + b"]" * 900 + b',"chain":"0123456789abcdef"}',
    ],
)
def test_damage_before_the_last_line_is_an_error_that_repairs_nothing(path, damage):
    lines = write(path, [{"n": 1}, {"n": 2}, {"n": 3}]).split(b"\n")
    lines[1] = damage
    path.write_bytes(b"\n".join(lines))
    for read in (read_journal, Journal):
        with pytest.raises(
            JournalError, match=r"journal\.jsonl: line 2 is damaged.*to go on from entry 1"
        ):
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


def test_any_flipped_bit_is_noticed_in_the_last_line_too_and_nothing_is_set_aside(path):
    whole = write(path, [{"cycle": 12, "who": "ann"}, {"labels": ["owl", "cat"]}])
    for place in range(len(whole)):
        for bit in range(8):
            changed = bytearray(whole)
            changed[place] ^= 1 << bit
            path.write_bytes(changed)
            with pytest.raises(JournalError, match="is damaged"):
                Journal(path)
            assert path.read_bytes() == changed
    assert not path.with_name("journal.jsonl.dropped").exists()


LINES = [{"n": n, "labels": [n, n + 1]} for n in range(5)]


@pytest.mark.parametrize(
    ("order", "first"),
    [
        ([1, 2, 3, 4], 1),
        ([0, 2, 3, 4], 2),
        ([0, 1, 2, 4], 4),
        ([0, 0, 1, 2, 3, 4], 2),
        ([0, 1, 2, 3, 4, 4], 6),
        ([0, 2, 1, 3, 4], 2),
        ([0, 1, 2, 4, 3], 4),
        ([0, 1, 2, 3, 4, 0], 6),
    ],
)
def test_a_line_that_is_missing_doubled_or_out_of_place_is_noticed(path, order, first):
    lines = write(path, LINES).splitlines(keepends=True)
    path.write_bytes(b"".join(lines[place] for place in order))
    before = path.read_bytes()
    for read in (read_journal, Journal):
        with pytest.raises(JournalError, match=rf"line {first} is damaged, or lines before"):
            read(path)
    assert path.read_bytes() == before


def old_line(entry):
    """Return a line as older versions wrote it, with a checksum of its own."""
    body = json.dumps(entry, ensure_ascii=False, separators=(",", ":"))
    inner = body[:-1] + ("," if len(body) > 2 else "")
    return f'{inner}"crc":"{zlib.crc32(body.encode()):08x}"}}\n'.encode()


def test_a_journal_of_an_older_version_goes_on_and_is_chained_from_then(path):
    path.parent.mkdir()
    path.write_bytes(b"".join(old_line(entry) for entry in ENTRIES))
    assert read_journal(path) == (ENTRIES, b"")
    journal = Journal(path)
    for entry in LINES:
        journal.append(entry)
    assert Journal(path).entries == [*ENTRIES, *LINES]
    lines = path.read_bytes().splitlines(keepends=True)
    assert lines[: len(ENTRIES)] == [old_line(entry) for entry in ENTRIES]
    for gone in range(len(lines) - 1):
        path.write_bytes(b"".join(lines[:gone] + lines[gone + 1 :]))
        with pytest.raises(JournalError, match=rf"line {max(gone, len(ENTRIES) - 1) + 1} is dam"):
            read_journal(path)
    path.write_bytes(b"".join(lines) + old_line(ENTRIES[1]))
    with pytest.raises(JournalError, match=rf"line {len(lines) + 1} is damaged"):
        read_journal(path)
