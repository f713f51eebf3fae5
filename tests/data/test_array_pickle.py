from __future__ import annotations

import os
import pickle
from typing import Any

import numpy as np
import pytest

from steepest.data.cifar10 import load_array_pickle
from steepest.errors import DataError


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_arrays_and_plain_values_come_back(protocol):
    given: dict[str, Any] = {
        "data": np.arange(6, dtype=np.uint8).reshape(2, 3),
        "labels": [3, 1],
        "raw": b"\xff",
    }
    read: Any = load_array_pickle(pickle.dumps(given, protocol), "batch")
    content = {k.decode() if isinstance(k, bytes) else k: v for k, v in read.items()}
    assert np.array_equal(content["data"], given["data"])
    assert content["data"].dtype == np.uint8
    assert content["labels"] == [3, 1]
    assert content["raw"] == b"\xff"


def as_written_by_python_2(array):
    """Pickle an array as numpy of 2009 did: old paths, numbers for booleans, byte strings."""
    count, width = array.shape
    opcodes = [
        b"\x80\x02",
        b"cnumpy.core.multiarray\n_reconstruct\n",
        b"cnumpy\nndarray\n",
        b"K\x00\x85U\x01b\x87R",
        b"(K\x01",
        b"K" + bytes([count]) + b"K" + bytes([width]) + b"\x86",
        b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb",
        b"\x89",
        b"U" + bytes([array.size]) + array.tobytes(),
        b"tb.",
    ]
    return b"".join(opcodes)


def test_pickles_of_python_2_are_read_without_a_warning():
    array = np.arange(250, 256, dtype=np.uint8).reshape(3, 2)
    read: Any = load_array_pickle(as_written_by_python_2(array), "batch")
    assert np.array_equal(read, array)


class Runs:
    def __init__(self, function, *arguments):
        self._call = (function, arguments)

    def __reduce__(self):
        return self._call


@pytest.mark.parametrize(
    ("function", "arguments", "named"),
    [
        (os.system, ("touch {path}",), "system"),
        (eval, ("open({path!r}, 'w')",), "eval"),
        (getattr, (1, "real"), "getattr"),
        (np.load, ("{path}",), "load"),
    ],
)
def test_anything_but_arrays_is_refused_by_name(tmp_path, function, arguments, named):
    path = str(tmp_path / "ran")
    filled = [a.format(path=path) if isinstance(a, str) else a for a in arguments]
    data = pickle.dumps({"data": Runs(function, *filled)}, 2)
    with pytest.raises(DataError, match=f"bad_batch.*{named}"):
        load_array_pickle(data, "bad_batch")
    assert not (tmp_path / "ran").exists()


def test_bytes_in_another_encoding_are_refused():
    data = b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x05\x00\x00\x00rot13\x86R."
    with pytest.raises(DataError, match="encoding"):
        load_array_pickle(data, "batch")


@pytest.mark.parametrize("keep", [0, 1, 40, -1])
def test_truncated_pickles_are_one_clear_line(keep):
    data = pickle.dumps({"data": np.zeros((2, 3), np.uint8)}, 2)[:keep]
    with pytest.raises(DataError, match="batch_7: truncated or damaged") as caught:
        load_array_pickle(data, "batch_7")
    assert "\n" not in str(caught.value)
