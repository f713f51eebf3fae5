"""Each strategy against its formula, and the identities between them."""

from __future__ import annotations

import copy
import math
import random as stdlib_random
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn
from torch.nn import functional as F

import steepest
from steepest.errors import InputError, ModelError
from steepest.strategies import create
from steepest.tasks import MultiLabel, Segmentation
from steepest.tasks.classification import Classification

pytestmark = pytest.mark.filterwarnings("ignore::steepest.errors.RegimeWarning")


class Passing(nn.Module):
    """Logits are the inputs, times a weight of one."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Parameter(torch.ones((), dtype=torch.float64))

    def forward(self, x):
        return x * self.one


def score(model, x, name, task=None, **options):
    return steepest.score(model, x, name, options=options, task=task, progress=False).values


@pytest.fixture
def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 4)).double()


@pytest.fixture
def points():
    return torch.randn(12, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(3)) * 2


def gram(net, x):
    """Return p [C] and J Jᵀ [C, C], the oracle of all gradient norms of one sample."""
    logits = net(x[None])[0]
    rows = []
    for z in logits:
        grads = torch.autograd.grad(z, list(net.parameters()), retain_graph=True)
        rows.append(torch.cat([g.flatten() for g in grads]))
    jacobian = torch.stack(rows)
    return logits.softmax(0).detach(), jacobian @ jacobian.T


def test_uncertainties_of_uniform_predictions():
    x = torch.zeros(1, 5, dtype=torch.float64)
    assert score(Passing(), x, "entropy") == pytest.approx(math.log(5))
    assert score(Passing(), x, "margin") == pytest.approx(0)
    assert score(Passing(), x, "least-confidence") == pytest.approx(1 - 1 / 5)


def test_two_classes_give_one_ranking():
    gap = torch.linspace(-3, 4, 15, dtype=torch.float64)
    x = torch.stack([gap, torch.zeros_like(gap)], dim=1)
    orders = [np.argsort(score(Passing(), x, n)) for n in ("entropy", "margin", "least-confidence")]
    assert np.array_equal(orders[0], orders[1])
    assert np.array_equal(orders[0], orders[2])


def test_sure_predictions_in_single_precision_are_measured_in_double():
    x = torch.tensor([[20.0, 0.0]])
    rest = 1 / (1 + math.exp(20))
    model = Passing().float()
    assert score(model, x, "least-confidence") == pytest.approx(rest, rel=1e-6)
    assert score(model, x, "margin") + 1 == pytest.approx(2 * rest, rel=1e-6)


@pytest.mark.parametrize("name", ["entropy", "margin", "least-confidence"])
def test_class_order_and_a_constant_leave_uncertainty_alone(name, points):
    plain = score(Passing(), points, name)
    np.testing.assert_allclose(score(Passing(), points.flip(1) + 7, name), plain, atol=1e-12)


def test_entropy_gradnorm_equals_its_closed_form_over_the_gram_matrix(net, points):
    found = score(net, points, "entropy-gradnorm")
    for value, x in zip(found, points, strict=True):
        p, k = gram(net, x)
        q = -p * (p.log() - (p * p.log()).sum())
        assert value == pytest.approx(float((q @ k @ q).sqrt()), rel=1e-9)


def test_egl_and_exact_fisher_equal_their_closed_forms(net, points):
    egl, fisher = score(net, points, "egl"), score(net, points, "fisher-gradnorm", draws=0)
    for i, x in enumerate(points):
        p, k = gram(net, x)
        q = p - torch.eye(4, dtype=torch.float64)
        squares = torch.einsum("ic,cd,id->i", q, k, q)
        assert egl[i] == pytest.approx(float((p * squares.sqrt()).sum()), rel=1e-9)
        assert fisher[i] == pytest.approx(float((p * squares).sum().sqrt()), rel=1e-9)


def test_fisher_draws_are_unbiased_for_the_exact_square(net, points):
    exact = score(net, points, "fisher-gradnorm", draws=0) ** 2
    # Copies of a point are samples of their own, with draws of their own.
    drawn = score(net, points.repeat(40, 1), "fisher-gradnorm", draws=100) ** 2
    np.testing.assert_allclose(drawn.reshape(40, -1).mean(0), exact, rtol=0.06)


def test_fisher_of_the_last_layer_has_a_closed_form():
    torch.manual_seed(1)
    layer, x = nn.Linear(6, 3).double(), torch.randn(7, 6, dtype=torch.float64)
    p = layer(x).softmax(1)
    expected = ((1 - p.square().sum(1)) * (x.square().sum(1) + 1)).sqrt()
    np.testing.assert_allclose(
        score(layer, x, "fisher-gradnorm", draws=0), expected.detach(), rtol=1e-10
    )


def test_expected_gradnorm_is_entropy_gradnorm_for_plain_cross_entropy(net, points):
    plain = Classification(classes=4)
    for norm in ("l2", "tensor-sum"):
        np.testing.assert_allclose(
            score(net, points, "expected-gradnorm", task=plain, norm=norm),
            score(net, points, "entropy-gradnorm", norm=norm),
            rtol=1e-12,
        )


@pytest.mark.parametrize(
    "task",
    [
        Classification(classes=4, label_smoothing=0.2),
        Classification(classes=4, class_weights=(5.0, 1.0, 1.0, 0.2)),
    ],
)
def test_expected_gradnorm_follows_the_tasks_own_loss(net, points, task):
    found = score(net, points, "expected-gradnorm", task=task)
    assert not np.allclose(found, score(net, points, "entropy-gradnorm"), rtol=1e-3)
    for value, x in zip(found, points, strict=True):
        logits = net(x[None])
        p = logits.softmax(1)[0]
        loss = sum(p[c] * task.training_loss(logits, torch.tensor([c]))[0] for c in range(4))
        grads = torch.autograd.grad(loss, list(net.parameters()))
        assert value == pytest.approx(float(sum(g.square().sum() for g in grads) ** 0.5), rel=1e-9)


def test_the_entropy_gradient_peaks_at_mild_confidence():
    p = torch.linspace(0.5, 0.999, 2000, dtype=torch.float64)
    layer = nn.Linear(2, 2, bias=False).double()
    with torch.no_grad():
        layer.weight.copy_(torch.eye(2))
    x = torch.stack([p.log(), (1 - p).log()], dim=1)
    # The norm over the weight carries a factor ‖x‖; divide it out to see the logits' share.
    share = score(layer, x, "entropy-gradnorm") / x.norm(dim=1).numpy()
    assert float(p[int(np.argmax(share))]) == pytest.approx(0.824, abs=2e-3)
    assert share[0] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("name", ["entropy-gradnorm", "expected-gradnorm"])
def test_neither_uniform_nor_certain_predictions_have_an_entropy_gradient(name):
    layer = nn.Linear(4, 4).double()
    with torch.no_grad():
        layer.weight.copy_(torch.eye(4))
        layer.bias.zero_()
    x = torch.stack([torch.ones(4), 900 * torch.eye(4)[2], torch.arange(4.0)]).double()
    uniform, certain, between = score(layer, x, name)
    assert uniform == pytest.approx(0, abs=1e-12)
    assert certain == pytest.approx(0, abs=1e-12)
    assert between > 0.1


def test_probabilities_count_in_the_gradient_and_so_does_the_scale_of_the_last_layer(net, points):
    logits = net(points)
    held = (logits.softmax(1).detach() * -logits.log_softmax(1)).sum()
    grads = torch.autograd.grad(held, list(net.parameters()))
    # With constant probabilities the expected gradient is zero for every sample.
    assert max(float(g.abs().max()) for g in grads) < 1e-12
    before = score(net, points, "expected-gradnorm")
    assert (before > 1e-3).all()
    with torch.no_grad():
        net[2].weight.mul_(2)
    assert not np.allclose(score(net, points, "expected-gradnorm"), before, rtol=0.05)


def test_tensor_sum_is_never_less_than_the_whole_norm(net, points):
    whole = score(net, points, "entropy-gradnorm")
    assert (score(net, points, "entropy-gradnorm", norm="tensor-sum") >= whole).all()


def test_random_reads_no_sample():
    class Unreadable(torch.utils.data.Dataset):
        def __len__(self):
            return 9

        def __getitem__(self, i):
            raise AssertionError

    assert len(set(score(Passing(), Unreadable(), "random"))) == 9


def test_random_is_uniform_and_ignores_the_global_state():
    counts = np.zeros(20)
    x = torch.zeros(20, 3, dtype=torch.float64)
    for seed in range(600):
        stdlib_random.seed(0)
        torch.manual_seed(0)
        counts[list(steepest.select(Passing(), x, 5, "random", seed=seed, progress=False).ids)] += 1
    assert counts.sum() == 3000
    assert stats.chisquare(counts).pvalue > 0.01


def test_dense_outputs_average_over_positions():
    torch.manual_seed(2)
    conv = nn.Conv2d(2, 3, 1).double()
    x = torch.randn(4, 2, 5, 5, dtype=torch.float64)
    log_p = F.log_softmax(conv(x), 1)
    expected = -(log_p.exp() * log_p).sum(1).mean((1, 2))
    np.testing.assert_allclose(score(conv, x, "entropy"), expected.detach(), rtol=1e-12)
    for name in ("margin", "least-confidence", "entropy-gradnorm", "fisher-gradnorm"):
        assert np.isfinite(score(conv, x, name)).all()
    np.testing.assert_allclose(
        score(conv, x, "expected-gradnorm"), score(conv, x, "entropy-gradnorm"), rtol=1e-10
    )
    with pytest.raises(InputError, match="egl has no meaning where a sample has many labels"):
        score(conv, x, "egl")


@pytest.mark.parametrize("layers", ["all", "last"])
def test_the_exact_fisher_trace_of_many_labels_names_the_draws(layers):
    torch.manual_seed(2)
    maps, table = torch.randn(4, 2, 5, 5), torch.randn(4, 6)
    for model, x, task in (
        (nn.Conv2d(2, 3, 1), maps, Segmentation(3)),
        (nn.Linear(6, 3), table, MultiLabel(3)),
    ):
        if layers == "last" and x is maps:
            continue  # The last layer alone is for linear ones.
        with pytest.raises(InputError, match=r"^fisher-gradnorm: draws=0 .*: set draws to 1"):
            score(model, x, "fisher-gradnorm", task=task, draws=0, layers=layers)
        found = score(model, x, "fisher-gradnorm", task=task, draws=1, layers=layers)
        assert np.isfinite(found).all()


def test_options_are_checked():
    with pytest.raises(InputError, match="draws must be 0"):
        create("fisher-gradnorm", {"draws": -1})
    with pytest.raises(InputError, match="tensor-sum"):
        create("egl", {"norm": "tensorsum"})


@pytest.mark.parametrize("name", ["entropy-gradnorm", "expected-gradnorm", "egl"])
@pytest.mark.parametrize("norm", ["l2", "tensor-sum"])
def test_the_last_layer_alone_is_what_is_left_when_all_else_is_frozen(name, norm, net, points):
    options = {"norm": norm, "layers": "last"}
    closed = steepest.score(net, points, name, options=options, progress=False)
    frozen = copy.deepcopy(net)
    last = [layer for layer in frozen.modules() if isinstance(layer, nn.Linear)][-1]
    frozen.requires_grad_(requires_grad=False)
    last.requires_grad_(requires_grad=True)
    whole = steepest.score(frozen, points, name, options={"norm": norm}, progress=False)
    np.testing.assert_allclose(closed.values, whole.values, rtol=1e-9)


def test_the_last_layer_must_make_the_logits(points):
    with pytest.raises(ModelError, match="layers='all'"):
        steepest.score(
            nn.Sequential(nn.Linear(points.shape[1], 3), nn.Tanh()).double(), points,
            "entropy-gradnorm", options={"layers": "last"}, progress=False,
        )  # fmt: skip


def test_drawn_labels_estimate_expected_gradient_length_without_bias(net, points):
    exact = steepest.score(net, points, "egl", progress=False).values
    drawn = [
        steepest.score(net, points, "egl", options={"draws": 20}, seed=s, progress=False).values
        for s in range(20)
    ]
    error = np.std(drawn, axis=0) / np.sqrt(len(drawn))
    assert (np.abs(np.mean(drawn, axis=0) - exact) < 4 * error + 1e-12).all()


@pytest.mark.parametrize("name", ["expected-gradnorm", "egl"])
def test_a_training_loss_need_not_be_hashable(name, net, points):
    @dataclass
    class Doubled:
        factor: float

        def __call__(self, logits, targets):
            return self.factor * F.cross_entropy(logits, targets, reduction="none")

    class Task(Classification):
        training_loss = Doubled(2.0)

    plain = score(net, points, name)
    np.testing.assert_allclose(score(net, points, name, task=Task(4)), 2 * plain, rtol=1e-9)
