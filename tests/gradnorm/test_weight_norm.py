"""Weight norm: gradients of normalised weights go back to direction and length for all samples."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations
from torch.nn.utils import weight_norm as by_hook

from steepest.gradnorm import GradientNorms, explain, reference_norms
from steepest.gradnorm.backward.components import _one_by_one, pass_on
from steepest.gradnorm.watch.sources import Source


def made(v: Tensor, g: Tensor, dim: int) -> Source:
    """Return a source as a watch makes it."""
    v, g = nn.Parameter(v), nn.Parameter(g)
    w = torch._weight_norm(v, g, dim)
    parents = [Source(v, parameter=v), Source(g, parameter=g)]
    return Source(w.detach().requires_grad_(), None, w, parents, torch._weight_norm)


@pytest.mark.parametrize(
    ("shape", "lengths", "dim"),
    [
        ((4, 3), (4, 1), 0),
        ((4, 3), (1, 3), 1),
        ((4, 3), (), -1),
        ((1, 3), (1, 1), 0),
        ((4, 3, 2, 2), (4, 1, 1, 1), 0),
        ((4, 3, 2, 2), (1, 3, 1, 1), 1),
        ((4, 3, 2, 2), (1, 1, 1, 2), 3),
        ((4, 3, 2, 2), (), -1),
    ],
)
def test_gradients_go_back_as_autograd_sends_them(shape, lengths, dim):
    torch.manual_seed(0)
    v, g = torch.randn(shape, dtype=torch.float64), torch.randn(lengths, dtype=torch.float64)
    source, gradients = made(v, g, dim), torch.randn(5, *shape, dtype=torch.float64)
    truth = dict(_one_by_one(source, gradients.clone()))
    found = dict(pass_on(source, gradients))
    assert list(found) == source.parents
    for parent, expected in truth.items():
        torch.testing.assert_close(found[parent], expected)


def test_a_length_that_is_no_source_of_its_own_goes_one_by_one():
    torch.manual_seed(0)
    v = nn.Parameter(torch.randn(4, 3, dtype=torch.float64))
    w = torch._weight_norm(v, torch.ones(4, 1, dtype=torch.float64), 0)
    parents = [Source(v, parameter=v)]
    source = Source(w.detach(), None, w, parents, torch._weight_norm)
    ((parent, found),) = pass_on(source, torch.ones(2, 4, 3, dtype=torch.float64))
    assert parent is parents[0]
    torch.testing.assert_close(found[0], torch.autograd.grad(w.sum(), v)[0])


def freeze(layer: nn.Module, part: str) -> nn.Module:
    getattr(layer.parametrizations.weight, part).requires_grad_(requires_grad=False)
    return layer


def conv(**options) -> nn.Conv2d:
    return nn.Conv2d(8, 8, 3, padding=1, **options)


LAYERS = {
    "convolution": lambda: parametrizations.weight_norm(conv()),
    "by a hook": lambda: by_hook(conv()),
    "depthwise": lambda: parametrizations.weight_norm(conv(groups=8)),
    "along another dimension": lambda: parametrizations.weight_norm(conv(), dim=1),
    "as a whole": lambda: parametrizations.weight_norm(conv(), dim=None),
    "transposed": lambda: parametrizations.weight_norm(nn.ConvTranspose2d(8, 8, 2, 2)),
    "length frozen": lambda: freeze(parametrizations.weight_norm(conv()), "original0"),
    "direction frozen": lambda: freeze(parametrizations.weight_norm(conv()), "original1"),
    "spectral": lambda: parametrizations.spectral_norm(conv()),
}


class Reused(nn.Module):
    """A layer that is called once or twice."""

    def __init__(self, layer: nn.Module, times: int) -> None:
        super().__init__()
        self.stem, self.layer, self.head = nn.Conv2d(3, 8, 1), layer, nn.Linear(8, 3)
        self.times = times

    def forward(self, x: Tensor) -> Tensor:
        y = self.stem(x)
        for _ in range(self.times):
            y = self.layer(y).tanh()
        return self.head(y.mean((2, 3)))


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated:FutureWarning")
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("name", LAYERS)
def test_normalised_layers_are_exact(name, times):
    torch.manual_seed(0)
    model = Reused(LAYERS[name](), times).double().eval()
    x = torch.randn(5, 3, 6, 6, dtype=torch.float64)
    found = GradientNorms(model, norm="per-tensor")(x)
    torch.testing.assert_close(found, reference_norms(model, x, norm="per-tensor"))
    assert explain(model, x).slow == ()


def test_gradients_are_built_for_a_few_samples_at_a_time(monkeypatch):
    torch.manual_seed(0)
    model = Reused(LAYERS["convolution"](), 2).double().eval()
    x = torch.randn(7, 3, 6, 6, dtype=torch.float64)
    whole = GradientNorms(model)(x)
    monkeypatch.setattr("steepest.gradnorm.measure.routes.CHUNK_FLOATS", 20_000)
    torch.testing.assert_close(GradientNorms(model)(x), whole)
