"""A loop over an array notices that its rows are no longer the same samples."""

from __future__ import annotations

import numpy as np
import pytest

from steepest.errors import RunFolderError
from steepest.labelling.exchange.array_identity import identify_array
from steepest.labelling.exchange.folder import LoopFolder, Settings

ROWS = np.arange(24, dtype=np.float32).reshape(6, 4)


def settings(array):
    return Settings("classification", ("cat", "dog"), "pool.npy", array=identify_array(array))


@pytest.fixture
def loop(tmp_path):
    folder = LoopFolder(tmp_path / "loop", settings(ROWS))
    folder.begin(range(6))
    return folder


def changed(row):
    other = ROWS.copy()
    other[row, 0] += 1
    return other


@pytest.mark.parametrize("whole_bytes", [1 << 20, 32])
@pytest.mark.parametrize(
    "other", [ROWS[::-1], ROWS[[1, 0, 2, 3, 4, 5]], changed(0), changed(5), ROWS.astype("f8")]
)
def test_other_values_are_another_array(whole_bytes, other):
    assert identify_array(ROWS, whole_bytes) == identify_array(ROWS.copy(order="F"), whole_bytes)
    assert identify_array(ROWS, whole_bytes).content != identify_array(other, whole_bytes).content


def test_of_a_large_array_some_rows_are_read(monkeypatch):
    rows = np.zeros((1000, 4), dtype=np.float32)
    between = rows.copy()
    between[1] = 1
    assert identify_array(rows, 64) == identify_array(between, 64)
    assert identify_array(rows) != identify_array(between)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (changed(3), "has other values than when the loop began.*--run.*labels.csv"),
        (ROWS.reshape(6, 2, 2), r"has the shape \[6, 2, 2\], and had \[6, 4\]"),
    ],
)
def test_another_array_is_refused(loop, other, message):
    LoopFolder.find(loop.path, range(6), settings(ROWS))
    with pytest.raises(RunFolderError, match=message) as error:
        LoopFolder.find(loop.path, range(6), settings(other))
    assert "\n" not in str(error.value)


def test_a_loop_from_before_goes_on_and_notes_the_array(loop):
    with loop.open_pool() as pool:
        pool.change_about(array=None)
    found = LoopFolder.find(loop.path, range(6), settings(changed(1)))
    found.note_array(identify_array(changed(1)))
    with pytest.raises(RunFolderError, match="other values"):
        LoopFolder.find(loop.path, range(6), settings(ROWS))
    LoopFolder.open(loop.path).note_array(identify_array(ROWS))
    assert LoopFolder.open(loop.path).settings.array == identify_array(changed(1))
