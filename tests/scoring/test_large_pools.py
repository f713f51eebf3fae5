"""What a large pool must not be made to pay for."""

from importlib import import_module

import pytest
import torch
from torch import nn

import steepest
from steepest.errors import InputError
from steepest.scoring.samples import Samples


def test_nobody_is_ranked_last_without_being_asked_for(monkeypatch):
    def refuse(*_):
        raise AssertionError("the scores were ranked once more")

    torch.manual_seed(0)
    monkeypatch.setattr(import_module("steepest.scoring.select"), "top_k", refuse)
    picks = steepest.select(nn.Linear(3, 2), torch.randn(20, 3), 4, "margin", progress=False)
    assert len(picks) == 4


@pytest.mark.parametrize("strange", [20, -1, "cat"])
def test_ids_that_are_no_row_are_refused_whatever_they_are(strange):
    with pytest.raises(InputError, match=f"{strange!r} is not in the pool"):
        steepest.select(
            nn.Linear(3, 2), torch.randn(20, 3), 4, "margin", labelled=[3, strange], progress=False
        )


def test_names_that_are_there_twice_are_still_refused():
    with pytest.raises(InputError, match="'a' is there more than once"):
        Samples(["a", "b", "a"], lambda positions, size: iter(()))
