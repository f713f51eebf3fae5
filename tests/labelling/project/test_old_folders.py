"""Folders of the last version with journals open as projects, and nothing of them is lost."""

from __future__ import annotations

import json
import shutil
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path

import pytest

from steepest.errors import DataError, DroppedEntryWarning, JournalError, RunFolderError
from steepest.labelling.exchange.folder import LoopFolder
from steepest.labelling.project import opening
from steepest.labelling.project.opening import BACKUP, PYTHON, SHEETS, open_pool
from steepest.pool import Pool

OLD = Path(__file__).parent.parent / "old_folders.zip"
"""Made by the version that kept journals, from what users do on the command line and in Python."""

SHEET_LOOPS, PYTHON_LOOPS = (
    ("sheets", "several", "masks", "pictures"),
    ("numbers", "texts", "lists"),
)
ODD = ("odd", "odd2")


@pytest.fixture
def old(tmp_path):
    with zipfile.ZipFile(OLD) as archive:
        archive.extractall(tmp_path)
    return tmp_path


@pytest.fixture
def expected(old):
    return json.loads((old / "expected.json").read_text())


def door_of(name):
    return SHEETS if name in SHEET_LOOPS else PYTHON


def events_of(pool):
    """Return events as the last version wrote them, without when a cut in time is rounded."""
    return [
        [e.time.isoformat(), str(e.verb), e.who, e.cycle, e.id, e.label, e.reason]
        for e in pool.events()
    ]


@pytest.mark.parametrize("name", [*SHEET_LOOPS, *PYTHON_LOOPS, *ODD])
def test_an_old_loop_is_a_project_with_all_that_it_knew(old, expected, name):
    known = expected[name]
    with open_pool(old / name, door_of(name)) as pool:
        assert pool.ids() == known["ids"]
        assert [str(pool.state(i)) for i in pool.ids()] == known["states"]
        assert [*map(list, pool.labelled())] == known["labelled"]
        assert events_of(pool) == known["events"]
        assert list(pool.rounds().values()) == known["rounds"]


@pytest.mark.parametrize("name", [*SHEET_LOOPS, *PYTHON_LOOPS, *ODD])
def test_an_old_loop_is_kept_as_it_was_beside_the_project(old, name):
    journal = "pool.jsonl" if name in SHEET_LOOPS else "labels.jsonl"
    before = {f.name: f.read_bytes() for f in (old / name).iterdir() if f.suffix == ".jsonl"}
    open_pool(old / name).close()
    kept = {f.name: f.read_bytes() for f in (old / name / BACKUP).iterdir() if f.suffix == ".jsonl"}
    assert kept == before
    assert not (old / name / journal).exists()
    open_pool(old / name).close()  # A second time, nothing is left to do.
    assert Pool.replay(old / name / BACKUP / journal).labelled() == open_pool(old / name).labelled()


def test_sheets_go_on_where_they_were(old, expected):
    folder = LoopFolder.open(old / "sheets")
    assert (folder.vocabulary.task, folder.vocabulary.names) == (
        "classification", ("cat", "dog", "owl"),
    )  # fmt: skip
    assert folder.settings.array.shape == (20, 4)
    assert folder.rounds()[1].picks.ids == tuple(
        expected["sheets"]["rounds"][1]["selection"]["ids"]
    )
    masks = LoopFolder.open(old / "masks")
    ((_, pixels),) = masks.maps.load_all(*masks.read_pool().labelled())
    assert pixels.tolist() == [[0, 1, 1, 255], [0, 0, 1, 1], [0, 0, 0, 1]]


@pytest.mark.parametrize("stage", ["_keep_copies", "put", "_put_away"])
def test_an_upgrade_that_is_cut_short_is_done_again(old, expected, monkeypatch, stage):
    def die(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(opening, stage, die)
    with pytest.raises(KeyboardInterrupt):
        open_pool(old / "sheets")
    monkeypatch.undo()
    with open_pool(old / "sheets", SHEETS) as pool:
        assert events_of(pool) == expected["sheets"]["events"]
    assert not (old / "sheets" / "pool.jsonl").exists()
    assert not list((old / "sheets").glob(".steepest-*"))


def test_a_loop_in_use_by_the_last_version_is_not_upgraded(old):
    with Pool.open(old / "sheets" / "pool.jsonl"), pytest.raises(RunFolderError, match="in use"):
        open_pool(old / "sheets")
    assert not (old / "sheets" / "labels.sqlite").exists()


def damaged(content):
    """Yield a journal with each line after the first gone, and with a bit of each flipped."""
    lines = content.splitlines(keepends=True)
    for place in range(1, len(lines) - 1):
        yield b"".join(lines[:place] + lines[place + 1 :])
    for place, line in enumerate(lines):
        for spot in (3, len(line) // 2, len(line) - 2, len(line) - 1):
            bad = line[:spot] + bytes([line[spot] ^ 2]) + line[spot + 1 :]
            yield b"".join([*lines[:place], bad, *lines[place + 1 :]])


def test_a_damaged_journal_is_left_as_it_is(old):
    folder = old / "sheets"
    file = folder / "pool.jsonl"
    whole, count = file.read_bytes(), 0
    for content in damaged(whole):
        file.write_bytes(content)
        with pytest.raises(JournalError, match=r"begin another loop and take .*labels\.csv"):
            LoopFolder.open(folder)
        assert file.read_bytes() == content
        count += 1
    assert count > 15
    assert not (folder / "labels.sqlite").exists()
    file.write_bytes(whole)
    assert LoopFolder.open(folder).begun


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("rounds.jsonl", []),
        ("rounds.jsonl", [1]),
        ("labels.jsonl", [0]),
        ("labels.jsonl", [0, 1, 2]),
    ],
)
def test_a_journal_that_lacks_what_the_other_tells_of_is_refused(old, name, kept):
    from steepest.core.journal import Journal

    path = old / "numbers" / name
    whole, entries = path.read_bytes(), Journal(path).entries
    path.write_bytes(b"")
    for i in kept:  # Each whole by itself, as lines of older versions are.
        Journal(path).append(entries[i])
    for _ in range(2):  # The second shows that the first let go of the folder.
        with pytest.raises(RunFolderError, match=rf"lines of {name} are missing or twice"):
            open_pool(old / "numbers")
    path.write_bytes(whole)
    open_pool(old / "numbers").close()


@pytest.mark.parametrize("name", ["rounds.jsonl", "labels.jsonl"])
def test_a_journal_without_a_line_in_the_middle_is_refused(old, name):
    path = old / "numbers" / name
    lines = path.read_bytes().splitlines(keepends=True)
    for gone in range(1 if name == "labels.jsonl" else 0, len(lines) - 1):
        path.write_bytes(b"".join(lines[:gone] + lines[gone + 1 :]))
        before = path.read_bytes()
        for _ in range(2):
            with pytest.raises(JournalError, match=rf"{name}: line {gone + 1} is damaged, or"):
                open_pool(old / "numbers")
        assert path.read_bytes() == before
    path.write_bytes(b"".join(lines))
    open_pool(old / "numbers").close()


def test_a_last_line_that_was_cut_short_is_set_aside(old):
    path = old / "numbers" / "labels.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.warns(DroppedEntryWarning), open_pool(old / "numbers", PYTHON) as pool:
        assert pool.state(2) == "labelled"  # It was unlabelled by the last line.


def test_rounds_without_labels_are_refused(old):
    (old / "numbers" / "labels.jsonl").unlink()
    with pytest.raises(RunFolderError, match=r"no labels\.jsonl"):
        open_pool(old / "numbers")


def test_settings_that_are_damaged_are_named(old):
    for content in ("", "[]", '{"task": 3}', '{"classes": []}'):
        (old / "sheets" / "loop.json").write_text(content)
        with pytest.raises(RunFolderError, match="damaged"):
            LoopFolder.open(old / "sheets")
    (old / "several" / "rounds" / "round-000.json").write_text("{")
    with pytest.raises(JournalError, match="round-000"):
        LoopFolder.open(old / "several")


def test_two_old_loops_in_one_folder_are_told_apart_by_the_user(old):
    for name in ("labels.jsonl", "rounds.jsonl"):
        shutil.copyfile(old / "numbers" / name, old / "sheets" / name)
    with pytest.raises(RunFolderError, match="two old loops"):
        open_pool(old / "sheets")


def test_a_page_of_the_last_version_has_all_its_tables(old, expected):
    folder = old / "photos" / ".steepest"
    open_pool(folder).close()
    with closing(sqlite3.connect(folder / "labels.sqlite")) as file:
        for table, rows in expected["page"].items():
            columns = "*"
            if table == "images":
                columns = "id,held_out,shuffle,votes,skips,imported,labels,disputed,open"
            order = " ORDER BY id" if table == "images" else ""
            found = [list(row) for row in file.execute(f"SELECT {columns} FROM {table}{order}")]
            width = len(rows[0]) if rows else 0
            assert [row[:width] for row in found] == rows, table
    with closing(sqlite3.connect(folder / "labels-version-7.sqlite")) as copy:
        assert copy.execute("PRAGMA user_version").fetchone() == (7,)


def test_nothing_is_made_where_there_is_no_project(tmp_path):
    with pytest.raises(RunFolderError, match="no labelling project"):
        open_pool(tmp_path)
    (tmp_path / "labels.sqlite").write_text("something else")
    with pytest.raises(DataError):
        open_pool(tmp_path)
