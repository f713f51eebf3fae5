"""Every gradient norm of a sample is a quadratic form of its logits' Jacobian J [C · …, P].

J is built outright, column by column in double precision, from nothing but autograd.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

import steepest
from steepest.gradnorm.engine import Engine
from steepest.modules.losses import each_label
from steepest.strategies import create
from steepest.strategies.batch import Batch

pytestmark = pytest.mark.filterwarnings("ignore::steepest.errors.RegimeWarning")
CLASSES = 4


class Net(nn.Module):
    """A convolution used twice, attention with a class token, and a tied table."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(1, 4)
        self.conv = nn.Conv2d(4, 4, 3, padding=1)
        self.token = nn.Parameter(torch.randn(1, 1, 4))
        self.mix = nn.MultiheadAttention(4, 2, batch_first=True)
        self.norm = nn.LayerNorm(4)
        self.table = nn.Parameter(torch.randn(CLASSES, 4))

    def forward(self, x: Tensor) -> Tensor:
        y = self.enter(x[..., None]).movedim(-1, 1)
        y = self.conv(self.conv(y).tanh()).flatten(2).transpose(1, 2)
        y = torch.cat([self.token.expand(len(y), -1, -1), y], dim=1)
        y = self.norm(y + self.mix(y, y, y, need_weights=False)[0] + self.table[0])
        return F.linear(y[:, 0], self.table)


class Dense(nn.Module):
    """A class for every pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 3, 3, padding=1), nn.Conv2d(3, CLASSES, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x[:, None]).tanh())


def images(n: int = 5) -> Tensor:
    return torch.randn(n, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2)) * 2


@pytest.fixture
def net() -> nn.Module:
    torch.manual_seed(0)
    return Net().double().eval()


@pytest.fixture
def dense() -> nn.Module:
    torch.manual_seed(0)
    return Dense().double().eval()


def jacobian(model: nn.Module, x: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Return a sample's logits [C, ...] and the Jacobian [C · ..., p] for each parameter."""
    names, values = zip(*model.named_parameters(), strict=True)

    def logits(*weights: Tensor) -> Tensor:
        return functional_call(model, dict(zip(names, weights, strict=True)), (x[None],))[0]

    z = logits(*values).detach()
    parts = torch.autograd.functional.jacobian(logits, values)
    return z, [part.reshape(z.numel(), -1) for part in parts]


def slope(loss, z: Tensor) -> Tensor:
    """Return the gradient [C · ...] of a loss with respect to the logits."""
    z = z.clone().requires_grad_()
    (found,) = torch.autograd.grad(loss(z), z)
    return found.flatten()


def entropy(z: Tensor) -> Tensor:
    p = z.softmax(0)
    return -(p * p.log()).sum(0).mean()


def scores(model, x, name, **options):
    return steepest.score(model, x, name, options=options, progress=False).values


@pytest.mark.parametrize("kind", ["net", "dense"])
def test_the_entropy_norm_is_a_quadratic_form_of_the_jacobian(kind, request):
    model = request.getfixturevalue(kind)
    found = steepest.gradient_norms(model, images(), norm="per-tensor")
    whole = steepest.gradient_norms(model, images())
    for row, total, x in zip(found, whole, images(), strict=True):
        z, parts = jacobian(model, x)
        v = slope(entropy, z)
        squares = torch.stack([v @ part @ part.T @ v for part in parts])
        torch.testing.assert_close(row.square(), squares, rtol=1e-9, atol=1e-15)
        full = torch.cat(parts, 1)
        torch.testing.assert_close(total.square(), v @ full @ full.T @ v, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("loss", ["cross-entropy", "pseudo-label"])
def test_norms_with_labels_are_those_of_the_jacobian_too(net, loss):
    given = torch.arange(5) % CLASSES
    targets = given if loss == "cross-entropy" else None
    found = steepest.gradient_norms(net, images(), loss, targets=targets)
    for value, x, y in zip(found, images(), given, strict=True):
        z, parts = jacobian(net, x)
        label = y if targets is not None else z.argmax()
        v = z.softmax(0) - F.one_hot(label, CLASSES)
        torch.testing.assert_close(value, (v @ torch.cat(parts, 1)).norm())


def test_the_exact_fisher_score_is_the_trace_of_its_information(net):
    found = scores(net, images(), "fisher-gradnorm", draws=0)
    by_tensor = scores(net, images(), "fisher-gradnorm", draws=0, norm="tensor-sum")
    for value, summed, x in zip(found, by_tensor, images(), strict=True):
        z, parts = jacobian(net, x)
        p = z.softmax(0)
        sigma = p.diag() - p[:, None] * p
        full = torch.cat(parts, 1)
        assert value**2 == pytest.approx(float((full.T @ sigma @ full).trace()), rel=1e-9)
        roots = [float((sigma @ part @ part.T).trace().sqrt()) for part in parts]
        assert summed == pytest.approx(sum(roots), rel=1e-9)


def test_expected_gradient_length_weighs_the_norm_under_each_label(net):
    found = scores(net, images(), "egl")
    by_tensor = scores(net, images(), "egl", norm="tensor-sum")
    for value, summed, x in zip(found, by_tensor, images(), strict=True):
        z, parts = jacobian(net, x)
        p = z.softmax(0)
        slopes = p - torch.eye(CLASSES, dtype=p.dtype)
        lengths = (slopes @ torch.cat(parts, 1)).norm(dim=1)
        assert value == pytest.approx(float(p @ lengths), rel=1e-9)
        each = torch.stack([(slopes @ part).norm(dim=1) for part in parts])
        assert summed == pytest.approx(float(p @ each.sum(0)), rel=1e-9)


@pytest.fixture
def forwards(net):
    """Count the forward passes and note their sizes."""
    sizes: list[int] = []
    net.register_forward_hook(lambda _module, given, _result: sizes.append(len(given[0])))
    return sizes


def test_the_losses_of_all_labels_share_one_forward_pass(net, forwards):
    engine = Engine(net)
    for _ in range(2):  # A plan is made, and the second batch is looked at as well.
        engine.squared_norms(images(), lambda out, _rows: each_label(out))
    forwards.clear()
    _, tables = engine.squared_norms(images(), lambda out, _rows: each_label(out))
    assert forwards == [1]  # As each sample sees it.
    for label, table in enumerate(tables):
        alone = steepest.gradient_norms(
            net, images(), "cross-entropy", targets=torch.full((5,), label), norm="per-tensor"
        )
        torch.testing.assert_close(table.sqrt(), alone)


@pytest.mark.parametrize(
    ("name", "options"),
    [("egl", {}), ("fisher-gradnorm", {"draws": 0}), ("fisher-gradnorm", {"draws": 6})],
)
def test_a_strategy_with_many_losses_runs_the_model_once(net, forwards, name, options):
    engine, strategy = Engine(net), create(name, options)

    def batch():
        return Batch(list(range(5)), images(), model=net, engine=engine)

    for _ in range(2):  # A plan is made, and the second batch is looked at as well.
        strategy.score(batch())
    forwards.clear()
    seen = batch()
    strategy.score(seen)
    assert seen.logits.shape == (5, CLASSES)
    assert forwards == [1]  # As each sample sees it.


@pytest.mark.parametrize("kind", ["net", "dense"])
def test_drawn_fisher_scores_are_unbiased(kind, request):
    model, x = request.getfixturevalue(kind), images()
    engine, strategy = Engine(model), create("fisher-gradnorm", {"draws": 2})
    draws = np.stack(
        [
            strategy.score(Batch(list(range(5)), x, model=model, engine=engine, seed=seed)).numpy()
            for seed in range(150)
        ]
    )
    squares = draws**2
    error = squares.std(0, ddof=1) / np.sqrt(len(squares))
    exact = np.array([fisher_trace(*jacobian(model, sample)) for sample in x])
    assert (error < 0.15 * exact).all()
    assert (np.abs(squares.mean(0) - exact) < 4 * error).all()
    assert (error > 1e-3 * exact).any()


def fisher_trace(z: Tensor, parts: list[Tensor]) -> float:
    """Return tr(Jᵀ Σ J) for the mean of the positions' losses, their labels independent."""
    positions = z[0].numel()
    p = z.reshape(CLASSES, positions).softmax(0)
    full = torch.cat(parts, 1).reshape(CLASSES, positions, -1)
    total = 0.0
    for t in range(positions):
        sigma = p[:, t].diag() - p[:, t, None] * p[:, t]
        total += float((full[:, t].T @ sigma @ full[:, t]).trace())
    return total / positions**2
