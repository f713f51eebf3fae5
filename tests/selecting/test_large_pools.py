"""What a large pool must not be made to pay for."""

from importlib import import_module

import pytest
import torch
from torch import nn

import steepest
from steepest.errors import InputError
from steepest.selecting.samples import Samples
from steepest.strategies import Scorer


def test_nobody_is_ranked_last_without_being_asked_for(monkeypatch):
    def refuse(*_):
        raise AssertionError("the scores were ranked once more")

    torch.manual_seed(0)
    monkeypatch.setattr(import_module("steepest.selecting.choosing"), "top_k", refuse)
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


class WritesIntoItsInput(Scorer):
    name = "writes"

    def score(self, batch):
        return batch.inputs.mul_(2.0).sum(1)


@pytest.mark.parametrize("labelled", [[], [3]])
def test_a_strategy_that_writes_into_its_input_leaves_the_pool_alone(labelled):
    pool = torch.randn(20, 4, generator=torch.Generator().manual_seed(0))
    before = pool.clone()
    steepest.score(nn.Linear(4, 3), pool, WritesIntoItsInput(), labelled=labelled, progress=False)
    assert torch.equal(pool, before)


def test_a_whole_pool_is_scored_as_its_parts_are():
    model = nn.Linear(4, 3)
    pool = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
    how = {"strategy": "margin", "batch_size": 7, "progress": False}
    whole = steepest.score(model, pool, **how)
    part = steepest.score(model, pool, **how, labelled=[0, 49])
    known = dict(zip(whole.ids, whole.values, strict=True))
    assert list(whole.ids) == list(range(50))
    assert [known[i] for i in part.ids] == pytest.approx(part.values, rel=1e-6)
