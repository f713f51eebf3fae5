"""Neighbours picked out of all the points of a batch: by rule while they stay within a sample."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from steepest.gradnorm import GradientNorms, explain, reference_norms

POINTS, NEAR = 6, 2


class Cloud(nn.Module):
    """Points [N, P, 8], two layers and a head."""

    def __init__(self, run) -> None:
        super().__init__()
        self.a, self.b, self.head = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3)
        self.run = run

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.run(self, x).unflatten(0, (len(x), -1)).mean(1))


def nearest(x: Tensor) -> Tensor:
    """Return the nearest points of every point [N, P, K], by number in the sample."""
    return torch.cdist(x, x).topk(NEAR, largest=False).indices


def rows(x: Tensor) -> Tensor:
    """Return the nearest points of every point [N · P · K], by number in the batch."""
    return (nearest(x) + torch.arange(len(x))[:, None, None] * x.shape[1]).flatten()


def edges(net, x):
    points = net.a(x).tanh()
    near = points.flatten(0, 1)[rows(x)].view(*x.shape[:2], NEAR, 8)
    return net.b(near - points[:, :, None]).relu().amax(2).flatten(0, 1)


def raw_edges(net, x):
    return net.b(net.a(x.flatten(0, 1)[rows(x), :]).relu())


def from_behind(net, x):
    return net.b(x.flatten(0, 1)[rows(x) - len(x) * POINTS]).tanh()


def selected(net, x):
    return net.b(torch.index_select(net.a(x).flatten(0, 1), 0, rows(x)))


def gathered(net, x):
    return net.b(net.a(x).flatten(0, 1).gather(0, rows(x)[:, None].expand(-1, 8))).tanh()


def looked_up(net, x):
    return net.b(F.embedding(rows(x).view(len(x), -1), net.a(x).flatten(0, 1))).flatten(0, 1)


def messages(net, x):
    sent = net.a(x).flatten(0, 1).repeat_interleave(NEAR, 0)
    return net.b(torch.zeros(len(x) * POINTS, 8, dtype=x.dtype).index_add(0, rows(x), sent)).tanh()


def scattered(net, x):
    sent = net.a(x).flatten(0, 1).repeat_interleave(NEAR, 0)
    places = rows(x)[:, None].expand(-1, 8)
    return net.b(sent.new_zeros(len(x) * POINTS, 8).scatter_add(0, places, sent)).tanh()


def in_two_rounds(net, x):
    y = net.a(x.flatten(0, 1)[rows(x)]).tanh().unflatten(0, (len(x), POINTS, NEAR)).mean(2)
    return net.b(y.flatten(0, 1)[rows(y)]).tanh()


def points(n: int) -> Tensor:
    return torch.randn(n, POINTS, 8, dtype=torch.float64)


def check(norms: GradientNorms, model: nn.Module, x: Tensor) -> None:
    truth = torch.cat([reference_norms(model, one[None], norm="per-tensor") for one in x])
    torch.testing.assert_close(norms(x), truth)


@pytest.mark.parametrize(
    "run",
    [edges, raw_edges, from_behind, selected, gathered, looked_up, messages, scattered,
     in_two_rounds],
)  # fmt: skip
def test_neighbours_cost_no_loop(run):
    torch.manual_seed(0)
    model = Cloud(run).double().eval()
    norms = GradientNorms(model, norm="per-tensor")
    for samples in (7, 2, 5, 1, 7):
        check(norms, model, points(samples))
    assert explain(model, points(7)).slow == ()


def shifted(net, x):
    """Take the next sample's points and put them back if there is a large number."""
    shift = (x.max() > 50).long()
    there, back = ((torch.arange(len(x)) + s) % len(x) for s in (shift, -shift))
    local = torch.arange(POINTS)
    y = x.flatten(0, 1)[(there[:, None] * POINTS + local).flatten()]
    return net.b(y).tanh()[(back[:, None] * POINTS + local).flatten()]


def test_points_that_leave_their_sample_in_a_later_batch_are_noticed():
    torch.manual_seed(0)
    model = Cloud(shifted).double().eval()
    norms = GradientNorms(model, norm="per-tensor")
    for large in (False, False, False, True, False, True, True):
        x = points(6)
        x[3, 0, 0] = 60.0 if large else 0.0
        check(norms, model, x)


def time_first(net, x):
    """Sort the samples within every step, and put them back: no block of rows is a sample."""
    order = x[:, 0, 0].argsort(stable=True)
    steps = torch.arange(x.shape[1])[:, None] * len(x)
    y = net.a(x.transpose(0, 1)).flatten(0, 1)
    y = net.b(y[(steps + order).flatten()]).tanh()[(steps + order.argsort()).flatten()]
    return y.unflatten(0, (x.shape[1], len(x))).transpose(0, 1).flatten(0, 1)


@pytest.mark.parametrize("trial", [True, False])
def test_samples_sorted_step_by_step_are_not_taken_for_points(trial, monkeypatch):
    if not trial:
        monkeypatch.setattr("steepest.gradnorm.engine.Engine._disproved", lambda *_: set())
    torch.manual_seed(0)
    model = Cloud(time_first).double().eval()
    norms = GradientNorms(model, norm="per-tensor")
    for swapped in (False, False, False, True, True):
        x = torch.randn(4, 2, 8, dtype=torch.float64)
        x[:, 0, 0] = torch.tensor([1.0, 0, 2, 3] if swapped else [0.0, 1, 2, 3])
        check(norms, model, x)


def test_samples_that_are_all_alike_prove_nothing():
    torch.manual_seed(0)
    model = Cloud(raw_edges).double().eval()
    norms, x = GradientNorms(model, norm="per-tensor"), points(1).expand(6, -1, -1)
    check(norms, model, x)
