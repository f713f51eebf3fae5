"""Scratch space is bounded: no rule makes a tensor much larger than it is allowed to."""

from __future__ import annotations

import pytest
import torch
from largest import Largest
from torch import Tensor, nn

from steepest.gradnorm import GradientNorms, reference_norms
from steepest.gradnorm.measure import routes
from steepest.gradnorm.measure.outer import Outer
from steepest.gradnorm.measure.routes import Routes
from steepest.gradnorm.measure.shares import Dense, Share, squares_of_sum
from steepest.gradnorm.rules.embedding import Lookup


@pytest.fixture
def budget(monkeypatch):
    """Allow so many numbers of scratch space."""

    def set_to(numbers):
        monkeypatch.setattr(routes, "CHUNK_FLOATS", numbers)

    return set_to


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=random, dtype=torch.float64)


class Headed(nn.Module):
    """One layer, whose result goes through a small head."""

    def __init__(self, layer: nn.Module, width: int, *, flat: bool = False) -> None:
        super().__init__()
        self.layer, self.head, self.flat = layer, nn.Linear(width, 3), flat

    def forward(self, *x: Tensor) -> Tensor:
        if self.flat:  # Several bags a sample.
            return self.head(self.layer(x[0].flatten(0, 1)).unflatten(0, (len(x[0]), -1)).sum(1))
        return self.head(self.layer(*x))


def check(model: nn.Module, *x: Tensor, most: int) -> None:
    """Compare with autograd, and look at the largest tensor of a batch."""
    model = model.double().eval()
    norms = GradientNorms(model, norm="per-tensor")
    torch.testing.assert_close(norms(x), reference_norms(model, x, norm="per-tensor"))
    assert norms.engine.slow_names() == []
    with Largest() as seen:
        norms(x)
    assert seen.numbers <= most, seen.operator


def truth_of(share: Share) -> Tensor:
    return share.dense(slice(None)).flatten(1).square().sum(1)


@pytest.mark.parametrize("skipped", [None, 2])
def test_rows_looked_up_are_added_up_in_parts(budget, skipped):
    ids = torch.randint(0, 4, (9, 10), generator=torch.Generator().manual_seed(0))
    share = Lookup(ids, draw(9, 10, 3), torch.Size([4, 3]), skipped=skipped)
    truth = truth_of(share)
    assert bool((share.dense(slice(None))[:, 2] == 0).all()) == (skipped == 2)
    budget(8 * 2 * 30)
    with Largest() as seen:
        found = share.squares(Routes())
    torch.testing.assert_close(found, truth)
    assert seen.numbers <= 2 * 30, seen.operator


def uses(*, transposed: bool = False) -> list[Share]:
    """Return three uses of one table [6, 4] by seven samples."""
    ids = torch.randint(0, 6, (7, 5), generator=torch.Generator().manual_seed(0))
    shape, left, right = torch.Size([6, 4]), draw(7, 1, 3, 4), draw(7, 1, 3, 6, seed=1)
    a, g = (right, left) if transposed else (left, right)
    return [
        Outer(a, g, shape, transposed=transposed),
        Lookup(ids, draw(7, 5, 4, seed=2), shape),
        Dense(draw(7, 6, 4, seed=3)),
    ]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0), (2, 0, 2)])
def test_uses_of_one_weight_are_added_in_place_and_left_as_they_were(transposed, order):
    made = uses(transposed=transposed)
    shares = [made[n] for n in order]
    before = [share.dense(slice(None)) for share in made]
    truth = torch.stack([before[n] for n in order]).sum(0).square().sum((1, 2))
    torch.testing.assert_close(squares_of_sum(shares, Routes()), truth)
    for share, kept in zip(made, before, strict=True):
        assert torch.equal(share.dense(slice(None)), kept)


def test_a_tied_table_has_one_copy_of_its_gradients():
    outer, lookup, _ = uses()
    with Largest() as seen:
        squares_of_sum([outer, lookup], Routes())
    assert len([size for size in seen.sizes if size >= 7 * 6 * 4]) == 1


def test_uses_in_different_precision_are_added_in_the_finer_one():
    outer, lookup, dense = uses()
    rough = Dense(dense.dense(slice(None)).float())
    truth = sum(share.dense(slice(None)).double() for share in (rough, outer, lookup))
    for shares in ([rough, outer, lookup], [outer, lookup, rough]):
        torch.testing.assert_close(
            squares_of_sum(shares, Routes()), truth.square().sum((1, 2)), rtol=1e-12, atol=0
        )
