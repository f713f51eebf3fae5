"""Parameters used several times, and weights made of parameters: exact in one batched pass."""

from __future__ import annotations

import pytest
import torch
from test_rules import by_rules_alone
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, parametrize

import steepest
from steepest.gradnorm import GradientNorms, reference_norms
from steepest.gradnorm.measure.outer import Outer
from steepest.gradnorm.measure.shares import Dense

CLASSES = 3


class TiedWords(nn.Module):
    """A language model's head shares the table of its words; a sample repeats some."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(7, 5, padding_idx=0)
        self.mix = nn.Linear(5, 5)
        self.head = nn.Linear(5, 7, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.mix(self.words(ids)).tanh().mean(1))


class TiedAutoencoder(nn.Module):
    """The decoder is the transpose of the encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 6) / 2)
        self.head = nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.linear(F.linear(x, self.weight).tanh(), self.weight.t()))


class Scales(nn.Module):
    """One convolution looks at an image and at two smaller copies of it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, padding=1)
        self.norm = nn.GroupNorm(2, 4)
        self.head = nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        sizes = [x, F.avg_pool2d(x, 2), F.avg_pool2d(x, 4)]
        return self.head(sum(self.norm(self.conv(s)).relu().mean((2, 3)) for s in sizes))


class Siamese(nn.Module):
    """Two inputs through the same branch."""

    def __init__(self) -> None:
        super().__init__()
        self.branch = nn.Sequential(nn.Conv1d(2, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(20, 4))
        self.head = nn.Linear(4, CLASSES)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return self.head((self.branch(left) - self.branch(right)).abs())


class Recurrent(nn.Module):
    """A cell written by hand, called at every step."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.again = nn.Linear(3, 4), nn.Linear(4, 4)
        self.head = nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        state = x.new_zeros(len(x), 4)
        for step in x.unbind(1):
            state = (self.enter(step) + self.again(state)).tanh()
        return self.head(state)


class Standardised(nn.Conv2d):
    """Weight standardisation."""

    def forward(self, x: Tensor) -> Tensor:
        mean = self.weight.mean((1, 2, 3), keepdim=True)
        std = self.weight.std((1, 2, 3), keepdim=True)
        return self._conv_forward(x, (self.weight - mean) / (std + 1e-5), self.bias)


class StandardisedByNorm(nn.Conv2d):
    """Weight standardisation by a function that is meant for data."""

    def forward(self, x: Tensor) -> Tensor:
        flat = self.weight.reshape(1, self.out_channels, -1)
        weight = F.batch_norm(flat, None, None, training=True)
        return self._conv_forward(x, weight.reshape_as(self.weight), self.bias)


class PositionBias(nn.Module):
    """A small net makes a bias of positions; its activation writes in place."""

    def __init__(self, *, read_again: str = "") -> None:
        super().__init__()
        self.register_buffer("positions", torch.linspace(-1, 1, 8).reshape(1, 4, 2))
        self.enter, self.leave = nn.Linear(2, 6), nn.Linear(6, 1)
        self.values = nn.Linear(3, 4)
        self.read_again = read_again

    def forward(self, x: Tensor) -> Tensor:
        entered = self.enter(self.positions)
        part = entered[..., :3] if self.read_again == "part" else entered
        bias = self.leave(F.relu(entered, inplace=True)).flatten()
        if self.read_again:
            bias = bias + part.sum()
        return self.values(x) * bias.sigmoid()


class LowRank(nn.Module):
    """A frozen layer with a trainable difference of low rank."""

    def __init__(self, *, merged: bool) -> None:
        super().__init__()
        self.base = nn.Linear(6, 5).requires_grad_(requires_grad=False)
        self.down = nn.Parameter(torch.randn(2, 6))
        self.up = nn.Parameter(torch.randn(5, 2))
        self.merged = merged

    def forward(self, x: Tensor) -> Tensor:
        if self.merged:
            return F.linear(x, self.base.weight + 0.5 * self.up @ self.down, self.base.bias)
        return self.base(x) + 0.5 * F.linear(F.linear(x, self.down), self.up)


class Chunked(nn.Module):
    """Queries, keys and values from parts of one weight and one bias."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(12, 4) / 2)
        self.bias = nn.Parameter(torch.randn(12) / 2)
        self.head = nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        weights, biases = self.weight.chunk(3), self.bias.split(4)
        q, k, v = (F.linear(x, w, b) for w, b in zip(weights, biases, strict=True))
        return self.head(F.scaled_dot_product_attention(q, k, v).mean(1))


class Doubled(nn.Module):
    """A parametrisation that doubles a weight."""

    def forward(self, weight: Tensor) -> Tensor:
        return weight * 2


def plain(layer: nn.Module, features: int) -> nn.Module:
    return nn.Sequential(layer, nn.Tanh(), nn.Flatten(), nn.Linear(features, CLASSES))


def parametrised(layer: nn.Module) -> nn.Module:
    parametrize.register_parametrization(layer, "weight", Doubled())
    return layer


def one_for_both(layer: nn.LayerNorm) -> nn.Module:
    layer.bias = layer.weight
    return layer


def normal(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(len(shape))
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def words() -> Tensor:
    return torch.randint(0, 7, (4, 6), generator=torch.Generator().manual_seed(0))


CASES = {
    "tied words": (TiedWords, words),
    "tied autoencoder": (TiedAutoencoder, lambda: normal(4, 6)),
    "scales": (Scales, lambda: normal(4, 2, 8, 8)),
    "recurrent": (Recurrent, lambda: normal(4, 5, 3)),
    "weight norm": (
        lambda: plain(parametrizations.weight_norm(nn.Conv1d(2, 3, 2)), 12),
        lambda: normal(4, 2, 5),
    ),
    "spectral norm": (
        lambda: plain(parametrizations.spectral_norm(nn.Linear(6, 5)), 5),
        lambda: normal(4, 6),
    ),
    "parametrised": (lambda: plain(parametrised(nn.Linear(6, 5)), 5), lambda: normal(4, 6)),
    "standardised": (lambda: plain(Standardised(2, 3, 2), 27), lambda: normal(4, 2, 4, 4)),
    "standardised by a norm": (
        lambda: plain(StandardisedByNorm(2, 3, 2), 27),
        lambda: normal(4, 2, 4, 4),
    ),
    "bias of positions": (lambda: plain(PositionBias(), 4), lambda: normal(4, 3)),
    "low rank": (lambda: plain(LowRank(merged=False), 5), lambda: normal(4, 6)),
    "low rank, merged": (lambda: plain(LowRank(merged=True), 5), lambda: normal(4, 6)),
    "chunked": (Chunked, lambda: normal(4, 5, 4)),
    "scale and shift in one": (
        lambda: plain(one_for_both(nn.LayerNorm(6)), 6),
        lambda: normal(4, 6),
    ),
    "view that is written into": (
        lambda: nn.Sequential(
            nn.Linear(4, 5), nn.Linear(5, 5), nn.ReLU(inplace=True), plain(nn.Linear(5, 2), 6)
        ),
        lambda: normal(4, 3, 4),
    ),
    "instance norm that is written into": (
        lambda: nn.Sequential(
            nn.Conv1d(2, 3, 2),
            nn.InstanceNorm1d(3, affine=True),
            nn.LeakyReLU(inplace=True),
            plain(nn.Conv1d(3, 2, 1), 8),
        ),
        lambda: normal(4, 2, 5),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_several_uses_and_derived_weights_are_exact_without_any_loop(name):
    torch.manual_seed(0)
    make, draw = CASES[name]
    model, x = make().double().eval(), draw()
    truth = reference_norms(model, x, norm="per-tensor")
    assert bool((truth.square().sum(0) > 0).all())
    torch.testing.assert_close(by_rules_alone(model, x), truth, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("read_again", ["whole", "part"])
def test_what_is_written_into_and_read_again_is_left_to_the_whole_model(read_again):
    torch.manual_seed(0)
    model, x = plain(PositionBias(read_again=read_again), 4).double().eval(), normal(4, 3)
    norms = GradientNorms(model, norm="per-tensor")
    torch.testing.assert_close(norms(x), reference_norms(model, x, norm="per-tensor"))
    assert norms.engine.slow_names() == ["0.enter.weight", "0.enter.bias"]


@pytest.mark.parametrize("name", ["tied words", "scales", "weight norm", "chunked"])
def test_single_precision_is_close(name):
    torch.manual_seed(0)
    make, draw = CASES[name]
    model, x = make().eval(), draw()
    found = steepest.gradient_norms(model, x.float() if x.is_floating_point() else x)
    torch.testing.assert_close(
        found.double(), reference_norms(model.double(), x), rtol=1e-5, atol=0
    )


def test_a_branch_for_two_inputs_is_exact_without_any_loop():
    torch.manual_seed(0)
    model = Siamese().double().eval()
    pair = (normal(4, 2, 6), normal(4, 2, 6).flip(0))
    truth = reference_norms(model, pair, norm="per-tensor")
    torch.testing.assert_close(by_rules_alone(model, *pair), truth, rtol=1e-9, atol=1e-13)


def test_uses_that_cancel_leave_nothing():
    class Difference(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.head = nn.Linear(6, 4), nn.Linear(4, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.layer(x) - self.layer(x) + x[:, :4])

    found = by_rules_alone(Difference().double().eval(), normal(3, 6))
    assert found[:, :2].abs().max() < 1e-12
    assert found[:, 2:].min() > 0


def test_uses_that_nearly_cancel_keep_their_digits_in_double_precision():
    class Apart(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(64, 64)
            self.head = nn.Linear(64, CLASSES).requires_grad_(False)

        def forward(self, one: Tensor, other: Tensor) -> Tensor:
            return self.head(1e3 * (self.layer(one).tanh() - self.layer(other).tanh()))

    torch.manual_seed(0)
    model, one = Apart().double().eval(), normal(6, 64)
    pair = (one, one + 1e-5 * normal(6, 64).flip(0))
    found = steepest.gradient_norms(model, pair)
    torch.testing.assert_close(found, reference_norms(model, pair), rtol=1e-10, atol=0)


def test_parts_of_one_weight_that_are_not_all_used_count_what_is():
    class Part(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(9, 6))

        def forward(self, x: Tensor) -> Tensor:
            first, _, last = self.weight.chunk(3)
            return F.linear(x, first) * F.linear(x, last)

    torch.manual_seed(0)
    model, x = Part().double().eval(), normal(4, 6)
    torch.testing.assert_close(by_rules_alone(model, x), reference_norms(model, x)[:, None])


def test_shares_are_joined_with_their_like_alone():
    a, g = torch.randn(2, 1, 3, 4), torch.randn(2, 1, 3, 5)
    products, sums = Outer(a, g, torch.Size((5, 4))), Dense(torch.randn(2, 5, 4))
    whole = slice(0, 2)
    for share in (products, sums):
        joined = share.joined([share, share])
        torch.testing.assert_close(joined.dense(whole), 3 * share.dense(whole))
    turned = Outer(g, a, torch.Size((5, 4)), transposed=True)
    for first, other in ((products, sums), (sums, products), (products, turned)):
        assert first.joined([other]) is None
        assert first.joined([first, other]) is None
    assert sums.joined([Dense(torch.randn(2, 5, 4).double())]) is None
