"""Models that no rule may speak for: exact all the same, or refused, never a wrong number."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.func import functional_call, jacfwd
from torch.nn import functional as F

import steepest
from steepest.errors import ModelError, SteepestError
from steepest.gradnorm import GradientNorms, reference_norms
from steepest.gradnorm.measure import routes
from steepest.modules.losses import entropy

CLASSES = 5


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(6, 8)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x):
        return self.head(self.body(x).tanh())


class Flipped(Base):
    """A layer sees the samples in another order."""

    def forward(self, x):
        return self.head(self.body(x.flip(0)).tanh().flip(0))


class Sorted(Base):
    """So does one behind a sort by length; the order depends on the data."""

    def forward(self, x):
        order = x.sum(1).argsort()
        return self.head(self.body(x[order]).tanh()[order.argsort()])


class Experts(nn.Module):
    """A router sends samples to experts; each is called once, for some of the samples."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(6, 8) for _ in range(3))
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x):
        chosen = x[:, :3].argmax(1)
        out = x.new_zeros(len(x), 8)
        for number, expert in enumerate(self.experts):
            mine = chosen == number
            if mine.any():
                out[mine] = expert(x[mine])
        return self.head(out)


class Ragged(nn.Module):
    """Samples hold several words each or none; in all, as many as there are samples."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(5, 8)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x):
        owner = torch.repeat_interleave(torch.arange(len(x)), x[:, 0].long())
        words = self.body(x[owner, 1:]).tanh()
        return self.head(words.new_zeros(len(x), 8).index_add(0, owner, words))


class Masked(Base):
    """A hook on a weight changes its gradient, as when part of it is frozen."""

    def __init__(self) -> None:
        super().__init__()
        mask = (torch.arange(48).reshape(8, 6) % 2).double()
        self.body.weight.register_hook(lambda g: g * mask)


class Slope(Base):
    """The output is itself a gradient: parameters count through the second derivative."""

    def forward(self, x):
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            energy = self.head(self.body(x).tanh()).square().sum()
            (slope,) = torch.autograd.grad(energy, x, create_graph=True)
        return slope[:, :CLASSES]


def vectors(n: int):
    return torch.randn(n, 6, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def counted(n: int):
    x = vectors(n)
    x[:, 0] = torch.tensor([1, 1, 1, 0, 2, 1, 0, 2, 1, 1][:n])
    return x


@pytest.mark.parametrize("samples", [2, 5, 10])
@pytest.mark.parametrize(
    ("kind", "inputs"),
    [(Flipped, vectors), (Sorted, vectors), (Experts, vectors), (Ragged, counted),
     (Masked, vectors), (Slope, vectors)],
)  # fmt: skip
def test_odd_models_are_measured_exactly_or_refused(kind, inputs, samples):
    torch.manual_seed(0)
    model, x = kind().double().eval(), inputs(samples)
    expected = reference_norms(model, x, norm="per-tensor")
    try:
        found = steepest.gradient_norms(model, x, norm="per-tensor")
    except SteepestError:
        return
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("change", [lambda z: z[:-1], lambda z: z.repeat_interleave(2, 0)])
def test_another_number_of_rows_than_samples_is_refused(change):
    class Other(Base):
        def forward(self, x):
            return change(super().forward(x))

    with pytest.raises(ModelError):
        steepest.gradient_norms(Other().double().eval(), vectors(4))


@pytest.mark.parametrize(
    "mix",
    [lambda h: h.cumsum(0), lambda h: h + (h.mean() if len(h) > 5 else 0)],
    ids=["later samples alone", "large batches alone"],
)
def test_samples_that_are_mixed_where_no_small_batch_shows_it_are_told(mix):
    class Mixing(Base):
        def forward(self, x):
            return self.head(mix(self.body(x)))

    torch.manual_seed(0)
    with pytest.raises(ModelError, match="changes with the other samples"):
        steepest.gradient_norms(Mixing().eval(), torch.randn(7, 6))


class Tokens(nn.Module):
    def forward(self, x):
        return x.flatten(2).transpose(1, 2)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("samples", [1, 4])
@pytest.mark.parametrize(
    "norm",
    [
        nn.BatchNorm2d(3),
        nn.BatchNorm2d(3).requires_grad_(requires_grad=False),
        nn.InstanceNorm2d(3, affine=True),
    ],
)
def test_gradients_that_torch_misreads_are_right(norm, samples):
    torch.manual_seed(0)
    layers = (nn.Conv2d(2, 3, 3), norm, Tokens(), nn.Flatten(), nn.Linear(48, CLASSES))
    check_against_forward_derivatives(nn.Sequential(*layers), torch.randn(samples, 2, 6, 6))


class Turned(nn.Module):
    def __init__(self, *dims: int) -> None:
        super().__init__()
        self.dims = dims

    def forward(self, x):
        return x.permute(self.dims)


@pytest.mark.parametrize("samples", [1, 4])
@pytest.mark.parametrize(
    ("before", "after"),
    [((0, 3, 2, 1), (0, 3, 2, 1)), ((0, 2, 3, 1), (0, 1, 2, 3)), ((0, 3, 1, 2), (0, 2, 1, 3))],
)
def test_gradients_of_permuted_inputs_that_torch_misreads_are_right(before, after, samples):
    torch.manual_seed(0)
    turned = torch.empty(1, 1, 6, 5).permute(before)
    norm = nn.BatchNorm2d(turned.shape[1])
    layers = (Turned(*before), norm, Turned(*after), nn.Flatten(), nn.Linear(30, CLASSES))
    check_against_forward_derivatives(nn.Sequential(*layers), torch.randn(samples, 1, 6, 5))


def check_against_forward_derivatives(model, x):
    model, x = model.double().eval(), x.double()
    trained = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}
    # Derivatives that are carried forward are no gradients, and have no strides to be misread.
    rows = jacfwd(lambda some: entropy(functional_call(model, some, x)))(trained).values()
    truth = torch.cat([row.flatten(1) for row in rows], dim=1).norm(dim=1)
    torch.testing.assert_close(reference_norms(model, x), truth, rtol=1e-9, atol=0)
    norms = GradientNorms(model)
    torch.testing.assert_close(norms(x), truth, rtol=1e-9, atol=0)
    assert norms.engine.slow_names() == []


def test_certain_predictions_keep_their_order():
    """Squares of small gradients must not vanish where the gradients do not."""
    torch.manual_seed(0)
    model = nn.Linear(6, CLASSES).eval()
    model.weight.data *= 200
    x = vectors(8).float()
    exact = reference_norms(copy.deepcopy(model).double(), x.double())
    representable = exact > torch.finfo(torch.float32).tiny
    found = steepest.gradient_norms(model, x)
    assert bool((exact < 1e-23).logical_and(representable).any()), "the test needs such a sample"
    torch.testing.assert_close(
        found[representable].double(), exact[representable], rtol=1e-3, atol=0
    )


def test_complex_parameters_count_in_full():
    class Waves(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mix = nn.Parameter(torch.randn(6, 6, dtype=torch.complex128))
            self.head = nn.Linear(6, CLASSES).double()

        def forward(self, x):
            return self.head((x.to(self.mix.dtype) @ self.mix).abs())

    torch.manual_seed(0)
    model, x = Waves().eval(), vectors(1)
    grads = torch.autograd.grad(entropy(model(x)).sum(), list(model.parameters()))
    exact = sum(g.abs().square().sum() for g in grads).sqrt()
    try:
        found = steepest.gradient_norms(model, x)
    except SteepestError:
        return
    torch.testing.assert_close(found.abs()[0], exact)


def test_buffers_that_the_forward_pass_changes_are_put_back():
    class Counting(Base):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x):
            self.calls += 1
            return super().forward(x)

    model = Counting().double().eval()
    steepest.gradient_norms(model, vectors(3))
    assert model.calls == 0


@pytest.mark.parametrize(
    ("model", "inputs", "options"),
    [
        (nn.LazyLinear(CLASSES), torch.randn(3, 6), {}),
        (nn.Linear(6, CLASSES), torch.randn(3, 7), {}),
        (nn.Linear(6, CLASSES), torch.randn(3, 6).double(), {}),
        (nn.Linear(6, CLASSES), torch.randn(3, 6), {"microbatch": 1.5}),
        (nn.Linear(6, CLASSES), torch.randn(3, 6), {"loss": None}),
        (nn.Linear(6, CLASSES), torch.randn(3, 6), {"loss": "cross-entropy", "targets": [0, 1, 2]}),
        (nn.Linear(6, CLASSES), torch.randn(3, 6),
         {"loss": "cross-entropy", "targets": torch.rand(3)}),
        (F.relu, torch.randn(3, 6), {}),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_in_our_own_words(model, inputs, options):
    if isinstance(model, nn.Module):
        model.eval()
    with pytest.raises(SteepestError) as caught:
        steepest.gradient_norms(model, inputs, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("route", ["together", "vendor", "patches"])
def test_sums_that_cancel_keep_their_digits(route, monkeypatch):
    """Smooth inputs under a normalisation: gradients of all positions nearly cancel."""
    honest = routes.Routes.pick

    def pick(self, key, costs, *rest):
        return honest(self, key, {route: 0.0} if route in costs else costs, *rest)

    monkeypatch.setattr(routes.Routes, "pick", pick)
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(16, 64, 3, padding=1, padding_mode="replicate"),
        nn.GroupNorm(4, 64),
        nn.Flatten(),
        nn.Linear(64 * 16, CLASSES),
    ).eval()
    x = torch.ones(4, 16, 4, 4) + 1e-3 * torch.randn(4, 16, 4, 4)
    exact = reference_norms(copy.deepcopy(model).double(), x.double(), norm="per-tensor")
    found = steepest.gradient_norms(model, x, norm="per-tensor").double()
    torch.testing.assert_close(found[:, 0], exact[:, 0], rtol=2e-3, atol=0)


def test_repeated_words_that_cancel_keep_their_digits():
    class Alternating(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(7, CLASSES)
            signs = torch.tensor([1.0, -1.0] * 20)[:, None]
            self.register_buffer("signs", signs * (1 + 1e-4 * torch.arange(40)[:, None]))

        def forward(self, ids):
            return (self.words(ids) * self.signs).sum(1) + torch.arange(CLASSES)

    torch.manual_seed(0)
    model, ids = Alternating().eval(), torch.full((3, 40), 2)
    exact = reference_norms(copy.deepcopy(model).double(), ids)
    torch.testing.assert_close(
        steepest.gradient_norms(model, ids).double(), exact, rtol=1e-4, atol=0
    )
