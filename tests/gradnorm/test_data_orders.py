"""Samples that change places by what they hold: exact, whichever samples come first."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import steepest
from steepest.gradnorm import GradientNorms, reference_norms

CLASSES = 4


class Net(nn.Module):
    """Two layers and a head, and a function that runs them on vectors with a length each."""

    def __init__(self, run) -> None:
        super().__init__()
        self.a, self.b, self.head = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, CLASSES)
        self.run = run

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        return self.run(self, x, lengths)

    def layers(self, x: Tensor) -> Tensor:
        return self.b(self.a(x).relu())


def falling(lengths: Tensor) -> Tensor:
    return lengths.argsort(descending=True, stable=True)


def advanced(net, x, lengths):
    order = falling(lengths)
    return net.head(net.layers(x[order])[order.argsort()])


def whole_tail(net, x, lengths):
    order = falling(lengths)
    return net.head(net.layers(x[order, :])[order.argsort(), ...])


def selected(net, x, lengths):
    order = falling(lengths)
    y = net.layers(torch.index_select(x, 0, order))
    return net.head(y.index_select(dim=0, index=order.argsort()))


def gathered(net, x, lengths):
    order = falling(lengths)
    y = net.layers(x.gather(0, order[:, None].expand_as(x)))
    return net.head(torch.take_along_dim(y, order.argsort()[:, None], 0))


def transposed(net, x, lengths):
    order = falling(lengths)
    return net.head(net.layers(x.t()[:, order].t())[order.argsort()])


def sorted_rows(net, x, lengths):
    keys, order = torch.sort(lengths, descending=True, stable=True)
    y = net.layers(x[order] + 0 * keys[:, None])
    return net.head(torch.zeros_like(y).index_copy(0, order, y))


def top(net, x, lengths):
    spread = lengths.double() - 1e-3 * torch.arange(len(x))
    order = spread.topk(len(x)).indices
    y = net.layers(x[order])
    out = torch.empty_like(y)
    out[order] = y
    return net.head(out)


def scattered(net, x, lengths):
    order = falling(lengths)
    y = net.layers(torch.zeros_like(x).scatter(0, order[:, None].expand_as(x), x))
    return net.head(y[order])


def written_into_a_view(net, x, lengths):
    order, room = falling(lengths), torch.zeros(len(x), 2, 6, dtype=x.dtype)
    room[:, 0][order] = x
    return net.head(net.layers(room[:, 0])[order])


def looked_up(net, x, lengths):
    order = falling(lengths)
    return net.head(net.layers(F.embedding(order, x))[order.argsort()])


def unique(net, x, lengths):
    _, where = torch.unique(-lengths.double() + 1e-3 * torch.arange(len(x)), return_inverse=True)
    y = net.layers(torch.zeros_like(x).index_add(0, where, x))
    return net.head(y[where])


def two_kinds(net, x, lengths):
    """Long samples first: two masks that part the batch."""
    many = lengths > 3
    y = net.layers(torch.cat([x[many], x[~many]]))
    out = torch.zeros_like(y)
    out[many], out[~many] = y[: int(many.sum())], y[int(many.sum()) :]
    return net.head(out)


def masked(net, x, lengths):
    many = (lengths > 3)[:, None].expand_as(x)
    parts = [x.masked_select(m).view(-1, 6) for m in (many, ~many)]
    where = torch.cat([many[:, 0].nonzero()[:, 0], (~many[:, 0]).nonzero()[:, 0]])
    return net.head(net.layers(torch.cat(parts))[where.argsort()])


def by_product(net, x, lengths):
    order = F.one_hot(falling(lengths), len(x)).to(x.dtype)
    return net.head(order.t() @ net.layers(order @ x))


def by_sum(net, x, lengths):
    """Samples in slots in order of their length, as experts with a capacity get them."""
    slots = F.one_hot(falling(lengths).argsort(), len(x)).to(x.dtype)
    y = net.layers(torch.einsum("ns,nd->sd", slots, x))
    return net.head(torch.einsum("ns, sd -> nd", slots, y))


def by_array(net, x, lengths):
    order = np.argsort(-lengths.numpy(), kind="stable")
    return net.head(net.layers(x[order])[np.argsort(order)])


def sorted_out_of_sight(net, x, lengths):
    with torch._C.DisableTorchFunction():
        order = falling(lengths)
        x, back = x[order], order.argsort()
    return net.head(net.layers(x)[back])


def by_name(net, x, lengths):
    order = falling(lengths)
    y = net.layers(torch.index_select(dim=0, index=order, input=x))
    return net.head(torch.gather(index=order.argsort()[:, None].expand_as(y), input=y, dim=0))


def bounds(net, x, lengths):
    """The samples before the first short one go to the end."""
    first = (lengths > 3).long().cumprod(0).sum() % len(x)
    y = net.layers(torch.cat([x[first:], x[:first]]))
    return net.head(torch.cat([y[len(x) - first :], y[: len(x) - first]]))


def on_the_host(net, x, lengths):
    order = sorted(range(len(x)), key=lengths.neg().tolist().__getitem__)
    back = [order.index(i) for i in range(len(x))]
    return net.head(net.layers(x[order])[back])


def by_numpy(net, x, lengths):
    order = torch.from_numpy(np.argsort(-lengths.numpy(), kind="stable"))
    return net.head(net.layers(x[order])[order.argsort()])


def row_by_row(net, x, lengths):
    rows = list(x)
    order = sorted(range(len(x)), key=[-int(n) for n in lengths].__getitem__)
    y = net.layers(torch.stack([rows[i] for i in order]))
    return net.head(torch.cat([y[order.index(i)][None] for i in range(len(x))]))


def only_sometimes(net, x, lengths):
    if bool(lengths[0] < lengths[-1]):
        return net.head(net.layers(x.flip(0)).flip(0))
    return net.head(net.layers(x))


def frames(net, x, lengths):
    order = falling(lengths)
    y = net.layers(x[order].view(-1, 2, 3).flatten(0, 1).repeat(1, 2)).view(-1, 2, 8)
    return net.head(y.mean(1)[order.argsort()])


def out_of_sight(net, x, lengths):
    """A layer behind a function that cannot be watched."""
    order = falling(lengths)
    y = net.a(x[order])
    with torch._C.DisableTorchFunction():
        y = y * torch.sigmoid(y)
    return net.head(net.b(y)[order.argsort()])


RUNS = [
    advanced, whole_tail, selected, gathered, transposed, sorted_rows, top, scattered,
    written_into_a_view, looked_up, unique, two_kinds, masked, by_product, by_sum, by_array,
    by_name, bounds, sorted_out_of_sight, on_the_host, by_numpy,
    row_by_row, only_sometimes, frames, out_of_sight,
]  # fmt: skip


def batches() -> list[tuple[Tensor, Tensor]]:
    """Return batches that are in order but for the third, which nobody would look at."""
    generator = torch.Generator().manual_seed(5)
    ranks = [[9] * 8, [9] * 8, [1, 2, 3, 4, 5, 6, 7, 8], [9, 9, 9, 2, 3, 1, 1, 1]]
    return [
        (torch.randn(8, 6, dtype=torch.float64, generator=generator), torch.tensor(some))
        for some in ranks
    ]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.__name__)
def test_an_order_that_only_later_batches_show_is_measured_exactly(run):
    torch.manual_seed(0)
    model = Net(run).double().eval()
    norms = GradientNorms(model, norm="per-tensor")
    for batch in batches():
        truth = reference_norms(model, batch, norm="per-tensor")
        torch.testing.assert_close(norms(batch), truth, rtol=1e-9, atol=1e-13)


def test_two_samples_that_change_places_within_the_first_batch_are_measured_exactly():
    def nudged(net, x, lengths):
        order = (torch.arange(len(x)) + 1.5 * (lengths == 1)).argsort()
        return net.head(net.layers(x[order])[order.argsort()])

    torch.manual_seed(0)
    model, (x, lengths) = Net(nudged).double().eval(), batches()[0]
    lengths[3] = 1  # Neither of those that a plan is made from, nor at the ends.
    found = steepest.gradient_norms(model, (x, lengths), norm="per-tensor")
    truth = reference_norms(model, (x, lengths), norm="per-tensor")
    torch.testing.assert_close(found, truth, rtol=1e-9, atol=1e-13)


class Packed(nn.Module):
    """Sequences sorted by length and packed."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(11, 6)
        self.lstm = nn.LSTM(6, 8, batch_first=True)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(
            self.words(ids), lengths, batch_first=True, enforce_sorted=False
        )
        states, (last, _) = self.lstm(packed)
        each, _ = pad_packed_sequence(states, batch_first=True, total_length=ids.shape[1])
        return self.head(each.mean(1) + last[-1])


@pytest.mark.parametrize("first", [[4, 4, 4, 4], [4, 3, 2, 1], [1, 4, 2, 2]])
def test_packed_sequences_are_exact(first):
    torch.manual_seed(0)
    model = Packed().double().eval()
    norms = GradientNorms(model, norm="per-tensor")
    for lengths in (first, [4, 4, 4, 4], [2, 4, 1, 3]):
        batch = (torch.randint(0, 11, (4, 4)), torch.tensor(lengths))
        truth = reference_norms(model, batch, norm="per-tensor")
        torch.testing.assert_close(norms(batch), truth, rtol=1e-9, atol=1e-13)


def test_an_order_by_chance_is_measured_exactly():
    def shuffled(net, x, _lengths):
        order = torch.randperm(len(x), generator=generator)
        return net.head(net.layers(x[order])[order.argsort()])

    generator = torch.Generator()
    torch.manual_seed(0)
    model, (x, lengths) = Net(shuffled).double().eval(), batches()[0]
    batch = (x[:4], lengths[:4])
    truth = reference_norms(model, batch, norm="per-tensor")
    generator.manual_seed(next(seed for seed in range(10**5) if hides(seed)))
    found = steepest.gradient_norms(model, batch, norm="per-tensor")
    torch.testing.assert_close(found, truth, rtol=1e-9, atol=1e-13)


def hides(seed: int) -> bool:
    """Say whether only the third order that this seed gives is one, and leaves the ends alone."""
    generator = torch.Generator().manual_seed(seed)
    drawn = [torch.randperm(n, generator=generator).tolist() for n in (2, 4, 4)]
    return drawn == [[0, 1], [0, 1, 2, 3], [0, 2, 1, 3]]
