"""Choosing from a large pool takes as long as looking at it, and is shown too."""

from collections import Counter
from contextlib import contextmanager

import pytest
import torch
from torch import nn

import steepest


class Counting:
    """Notes how far each piece of work came, as a share of its size."""

    def __init__(self):
        self.sizes, self.done = {}, Counter()

    @contextmanager
    def task(self, description, total):
        self.sizes[description] = total
        outer = self

        class Step:
            def advance(self, amount=1, note=""):
                outer.done[description] += amount

        yield Step()


@pytest.mark.parametrize("labelled", [(), (0, 1, 2)])
@pytest.mark.parametrize("strategy", ["badge", "core-set", "gradnorm-spread", "noise-stability"])
def test_every_sample_that_is_taken_is_told_of(strategy, labelled):
    torch.manual_seed(0)
    model, pool, shown = nn.Linear(5, 3), 9 * torch.randn(300, 5), Counting()
    steepest.select(model, pool, 130, strategy, labelled=labelled, progress=shown)
    assert shown.sizes["choosing"] == shown.done["choosing"] == 130
