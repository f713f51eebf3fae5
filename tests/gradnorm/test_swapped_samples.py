"""Samples that change places out of sight, and only in some batches: no wrong number."""

from __future__ import annotations

import pytest
import torch
from hard_models import Net
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence

from steepest.gradnorm import GradientNorms, reference_norms


def numbers(far: Tensor) -> Tensor:
    """Return where each sample goes [N]: those that are far off change places end for end."""
    here = torch.arange(len(far))
    return torch.where(far, len(far) - 1 - here, here)


def matrix(far: Tensor, like: Tensor) -> Tensor:
    """Return the same as a matrix [N, N]."""
    return (numbers(far)[:, None] == torch.arange(len(far))).to(like.dtype)


def as_grid(far: Tensor, y: Tensor) -> Tensor:
    """Return the same as places in an image of one row [1, 1, N, 2]."""
    x = (2 * numbers(far).to(y.dtype) + 1) / len(y) - 1
    return torch.stack([x, torch.zeros_like(x)], -1)[None, None]


SWAPS = {
    "flip": lambda far, y: torch.where(far[:, None], y.flip(0), y),
    "masks": lambda far, y: y * ~far[:, None] + y.flip(0) * far[:, None],
    "counted down": lambda far, y: torch.where(
        far[:, None], y[torch.arange(len(y) - 1, -1, -1)], y
    ),
    "from behind": lambda far, y: torch.where(
        far[:, None], y[len(y) - 1 - torch.arange(len(y))], y
    ),
    "unbound": lambda far, y: torch.where(far[:, None], torch.stack(y.unbind()[::-1]), y),
    "split": lambda far, y: torch.where(far[:, None], torch.cat(y.split(1)[::-1]), y),
    "tensordot": lambda far, y: torch.tensordot(matrix(far, y), y, 1),
    "inner": lambda far, y: torch.inner(matrix(far, y), y.t()),
    "chained": lambda far, y: torch.linalg.multi_dot([matrix(far, y), y]),
    "products": lambda far, y: (matrix(far, y)[:, :, None] * y).sum(1),
    "solved": lambda far, y: torch.linalg.solve(matrix(far, y), y),
    "sparse": lambda far, y: torch.sparse.mm(matrix(far, y).to_sparse(), y),
    "attention": lambda far, y: F.scaled_dot_product_attention(
        1e4 * matrix(far, y)[None], torch.eye(len(y), dtype=y.dtype)[None], y[None]
    )[0],
    "convolution": lambda far, y: F.conv1d(y[None], matrix(far, y)[:, :, None])[0],
    "bag": lambda far, y: F.embedding_bag(numbers(far)[:, None], y, mode="sum"),
    "grid": lambda far, y: F.grid_sample(
        y.t()[None, :, None], as_grid(far, y), mode="nearest", align_corners=False
    )[0, :, 0].t(),
}


def swapping(swap):
    def run(net, x):
        far = x[:, 0] > 3
        return net.head(swap(far, net.mid(swap(far, net.body(x))).tanh()))

    return run


@pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning")
@pytest.mark.parametrize("trial", [True, False])
@pytest.mark.parametrize("name", SWAPS)
def test_samples_that_change_places_in_a_later_batch_are_exact(name, trial, monkeypatch):
    if not trial:  # What is found out from outside must do without the proof.
        monkeypatch.setattr("steepest.gradnorm.engine.Engine._disproved", lambda *_: set())
    torch.manual_seed(0)
    model = Net(swapping(SWAPS[name]), mid=nn.Linear(8, 8)).double().eval()
    norms = GradientNorms(model, norm="per-tensor")
    for far in (False, False, False, True, False, True):
        x = torch.randn(6, 5, dtype=torch.float64).clamp(-2, 2)
        x[[1, 4], 0] = 4.0 if far else 0.5
        torch.testing.assert_close(norms(x), reference_norms(model, x, norm="per-tensor"))


def test_two_views_of_every_sample_cost_no_loop():
    def run(net, x):
        left, right = net.body(torch.cat([x, x.flip(1)])).tanh().chunk(2)
        return net.head(left * right)

    torch.manual_seed(0)
    model, x = Net(run).double().eval(), torch.randn(6, 5, dtype=torch.float64)
    norms = GradientNorms(model, norm="per-tensor")
    torch.testing.assert_close(norms(x), reference_norms(model, x, norm="per-tensor"))
    assert norms.engine.slow_names() == []


class Packed(nn.Module):
    """Takes sequences whose lengths fall."""

    def __init__(self) -> None:
        super().__init__()
        self.steps, self.head = nn.GRU(5, 6, batch_first=True), nn.Linear(6, 3)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=True)
        return self.head(self.steps(packed)[1][-1])


def test_a_model_that_wants_its_samples_in_order_gets_them_so():
    torch.manual_seed(0)
    model, x = Packed().double().eval(), torch.randn(5, 4, 5, dtype=torch.float64)
    batch = (x, torch.tensor([4, 3, 3, 2, 1]))
    found = GradientNorms(model, norm="per-tensor")(batch)
    torch.testing.assert_close(found, reference_norms(model, batch, norm="per-tensor"))


def columns(net, x):
    return net.head(torch.matmul(net.p, x.t()).t().tanh())


def filled(net, x):
    out = net.p.repeat(len(x), 1)
    out[:, :3] += x[:, :3]
    out[:, 3:] *= net.body(x)[:, 3:]
    return net.head(out)


@pytest.mark.parametrize(
    ("run", "shape"), [(columns, (8, 5)), (filled, (8,))], ids=["weight first", "copies filled"]
)
@pytest.mark.parametrize("sizes", [(1, 6), (6, 1), (5, 5)])
def test_a_batch_of_one_may_come_first(run, shape, sizes):
    torch.manual_seed(0)
    model = Net(run, p=torch.randn(shape)).double().eval()
    norms = GradientNorms(model, norm="per-tensor")
    for samples in sizes:
        x = torch.randn(samples, 5, dtype=torch.float64)
        torch.testing.assert_close(norms(x), reference_norms(model, x, norm="per-tensor"))


class Borrowed(nn.Module):
    """Frames are folded with the samples, and some tokens are taken from another sample's frame.

    They are the same in every frame, as in TimeSformer, so that nothing shows in the outputs.
    """

    def __init__(self) -> None:
        super().__init__()
        self.first, self.places = (
            nn.Parameter(torch.randn(1, 1, 6)),
            nn.Parameter(torch.randn(4, 6)),
        )
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        samples, frames = x.shape[:2]
        folded = torch.cat([self.first.expand(samples * frames, -1, -1), x.flatten(0, 1)], 1)
        folded = folded + self.places
        seen = folded[:, 1:].tanh().unflatten(0, (samples, frames)).mean((1, 2))
        return self.head(seen + 0.02 * folded[:samples, 0].tanh())


def test_a_small_part_of_a_gradient_that_goes_to_another_sample_is_noticed_in_single_precision():
    torch.manual_seed(0)
    model, x = Borrowed().eval(), torch.randn(6, 4, 3, 6)
    found = GradientNorms(model, norm="per-tensor")(x).double()
    truth = reference_norms(model.double(), x.double(), norm="per-tensor")
    torch.testing.assert_close(found, truth, rtol=2e-5, atol=0)
