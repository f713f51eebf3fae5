from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pytest
import torch

from steepest.data.shared_arrays import can_be_sent, pack, share
from steepest.errors import DataError


class Typed:
    """Stands for a class of the main script."""


Typed.__module__ = "__main__"


def test_a_parcel_holds_what_was_packed():
    item = {
        "array": np.arange(7, dtype=np.int16),
        "empty": np.zeros((0, 3)),
        "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "strided": np.arange(10)[::3],
        "tensor": torch.arange(6).reshape(2, 3).t(),
        "wide": torch.tensor([1.5], dtype=torch.bfloat16),
        "learned": torch.tensor([2.0], requires_grad=True),
        "rest": ["text", (1, 2.5), None],
    }
    opened = pack(item).open()
    assert opened["rest"] == item["rest"]
    for name in ("array", "empty", "fortran", "strided"):
        assert np.array_equal(opened[name], item[name])
        assert opened[name].dtype == item[name].dtype
    for name in ("tensor", "wide", "learned"):
        assert torch.equal(opened[name], item[name])
        assert opened[name].dtype == item[name].dtype
    assert opened["learned"].requires_grad


@pytest.mark.parametrize("data", [np.arange(5000), torch.arange(5000)])
def test_all_who_open_it_see_the_same_memory(data):
    parcel = pack([data])
    (first,), (second,) = parcel.open(), parcel.open()
    first[3] = -1
    assert second[3] == -1
    assert data[3] == 3
    assert parcel.block.is_shared()


def test_many_arrays_travel_in_one_block():
    parcel = pack([np.full(3, n) for n in range(500)])
    assert len(parcel.spans) == 501
    assert [int(a[0]) for a in parcel.open()] == list(range(500))
    assert all(start % 64 == 0 for start, _ in parcel.spans)


def test_what_the_main_file_defines_is_noticed():
    assert not pack(np.arange(3)).needs_main
    assert not can_be_sent(Typed)
    assert can_be_sent([np.arange(3), torch.arange(3), "text"])


def test_what_the_main_file_defines_is_noticed_in_a_worker_process_too(monkeypatch):
    """There it goes by another name, which processes that do not run it do not know."""
    main = ModuleType("__mp_main__")
    exec("class Typed: pass", vars(main))
    monkeypatch.setitem(sys.modules, "__mp_main__", main)
    assert not can_be_sent(main.Typed())
    assert pack(main.Typed()).needs_main


def test_what_cannot_be_pickled_cannot_be_sent():
    assert not can_be_sent(lambda: None)
    with pytest.raises(DataError, match="cannot be sent") as caught:
        pack(lambda: None)
    assert "\n" not in str(caught.value)


def test_shared_memory_has_the_shape_and_type_asked_for():
    memory = share((2, 3), torch.uint8)
    assert memory.shape == (2, 3)
    assert memory.dtype == torch.uint8
    assert memory.is_shared()
