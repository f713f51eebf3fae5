"""Whose each row of a gradient is."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from steepest.gradnorm.owners import owners_of, sort_rows, weights_to_send
from steepest.gradnorm.rules.base import Rows

WIDTH = 3


def sent(owners: Tensor, samples: int, kind: torch.dtype = torch.float64) -> list[Tensor]:
    """Return gradients [R, D] of the plain and of the weighted losses, for rows of some owners."""
    generator = torch.Generator().manual_seed(0)
    g = torch.randn(len(owners), WIDTH, generator=generator, dtype=kind)
    return [g, *(g * weights[owners, None].to(kind) for weights in weights_to_send(samples))]


def told(gradients: list[Tensor], samples: int) -> Tensor:
    plain, *weighted = gradients
    return owners_of(Rows({"input": plain}, 1), plain, weighted, samples)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize(("samples", "passes"), [(1, 2), (64, 2), (65, 3), (1024, 3), (1025, 4)])
def test_every_sample_is_told_from_every_other(samples, passes, kind):
    owners = torch.randperm(samples, generator=torch.Generator().manual_seed(1)).repeat(2)
    assert len(weights_to_send(samples)) == passes
    assert torch.equal(told(sent(owners, samples, kind), samples), owners)


def test_rows_without_a_gradient_are_nobodys():
    gradients = sent(torch.tensor([2, 0, 1, 1]), 3)
    for g in gradients:
        g[1] = 0
    assert told(gradients, 3).tolist() == [2, -1, 1, 1]


@pytest.mark.parametrize("part", [1.0, 1e-3])
@pytest.mark.parametrize("pair", [(0, 1), (0, 64), (1, 65), (63, 64)])
def test_a_row_of_two_samples_is_refused(pair, part):
    samples = 70
    one, other = (sent(torch.tensor([n]), samples) for n in pair)
    both = [a + part * b.flip(1) for a, b in zip(one, other, strict=True)]
    with pytest.raises(NotImplementedError):
        told(both, samples)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("parts", "samples"),
    [
        ({0: 1.0, 15: 1.0}, 20),  # 1 + 2^15 is nearly 2^15, which is twice 2^14.
        ({0: 1.0, 63: 1.0}, 64),
        ({0: 2.0, 2: 1.0}, 3),  # Half as large a part of four times the weight.
        ({0: 1.0, 1: -1.0, 2: 1.0}, 3),
        ({0: 1.0, 1: -3.0, 2: 1.0}, 4),
        ({0: 1.0, 2: 1.0, 64: 1.0}, 100),  # Alike in both digits.
        ({0: 1.0, 2: 1.0, 16: 1.0}, 64),
    ],
)
def test_equal_rows_of_several_samples_never_look_like_another_sample(parts, samples, kind):
    one, *others = (
        [part * g for g in sent(torch.tensor([n]), samples, kind)] for n, part in parts.items()
    )
    both = [sum(gradients[1:], gradients[0]) for gradients in zip(one, *others, strict=True)]
    with pytest.raises(NotImplementedError):
        told(both, samples)


@pytest.mark.parametrize("seed", range(3))
def test_equal_rows_of_any_samples_never_look_like_one(seed):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(200):
        samples = int(torch.randint(2, 100, (), generator=generator))
        several = int(torch.randint(2, 6, (), generator=generator))
        chosen = torch.randperm(samples, generator=generator)[:several]
        row = torch.randn(1, WIDTH, generator=generator, dtype=torch.float64)
        times = [len(chosen), *(weights[chosen].sum() for weights in weights_to_send(samples))]
        with pytest.raises(NotImplementedError):
            told([row * each for each in times], samples)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda g: g[1][0].zero_(),  # Lost on the way.
        lambda g: g[0][0].zero_(),
        lambda g: g[1][0].fill_(torch.inf),
        lambda g: g[0][0].fill_(torch.inf),
        lambda g: g[0][0].fill_(torch.nan),
        lambda g: g[1][0].neg_(),
        lambda g: g[1][0].mul_(2**9),  # Of a sample that there is not.
        lambda g: g.pop(),
    ],
)
def test_what_follows_no_weight_is_refused(spoil):
    gradients = sent(torch.tensor([1, 0]), 3)
    spoil(gradients)
    with pytest.raises(NotImplementedError):
        told(gradients, 3)


@pytest.mark.parametrize("dims", [0, 2])
def test_data_without_the_rows_of_the_result_are_refused(dims):
    g, *weighted = sent(torch.tensor([1, 0]), 2)
    with pytest.raises(NotImplementedError):
        owners_of(Rows({"input": g[:, :1]}, dims), g, weighted, 2)


def test_rows_are_put_in_order_by_sample():
    sorting = sort_rows(torch.tensor([2, 0, -1, 2, 0, 2]), 4)
    places = sorting.places.masked_fill(sorting.spare, -1).reshape(4, 3)
    assert places.tolist() == [[1, 4, -1], [-1, -1, -1], [0, 3, 5], [-1, -1, -1]]
    # What fills the gaps has an owner: its values are not ill-defined.
    assert set(sorting.places[sorting.spare].tolist()) == {0}


def test_nothing_is_in_order_without_rows():
    assert sort_rows(torch.tensor([-1, -1]), 4) is None
    assert sort_rows(torch.zeros(0, dtype=torch.long), 4) is None
    assert len(told(sent(torch.zeros(0, dtype=torch.long), 3), 3)) == 0
