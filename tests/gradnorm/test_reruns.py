"""Functions run again for single samples, and cells put together anew."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations
from torch.overrides import wrap_torch_function
from torch.utils.checkpoint import checkpoint

from steepest.gradnorm import GradientNorms, engine, explain, reference_norms
from steepest.gradnorm.measure import routes
from steepest.gradnorm.watch import calls

CLASSES = 3


@pytest.fixture
def unchecked(monkeypatch):
    """Let no plan be saved by the look at single samples."""
    monkeypatch.setattr(engine.Engine, "_disproved", lambda *_: set())


@pytest.fixture
def unopened(monkeypatch):
    """Take recurrent layers for functions that nobody knows."""
    monkeypatch.setattr(calls, "can_be_opened", lambda *_: False)


def check(model: nn.Module, x: Tensor) -> GradientNorms:
    norms = GradientNorms(model, norm="per-tensor")
    truth = reference_norms(model, x, norm="per-tensor")
    assert bool((truth.square().sum(0) > 0).all())
    torch.testing.assert_close(norms(x), truth, rtol=1e-9, atol=1e-13)
    return norms


class Read(nn.Module):
    """A sequence read by a recurrent layer, as often as asked."""

    def __init__(self, layer: nn.Module, times: int = 1) -> None:
        super().__init__()
        self.layer, self.head, self.times = layer, nn.Linear(4, CLASSES), times

    def forward(self, x: Tensor) -> Tensor:
        return self.head(sum(self.layer(x * (1 + t))[0].mean(1) for t in range(self.times)))


def sequences(samples: int = 5) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(samples, 6, 4, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("floats", [1, 600])
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_a_large_function_is_built_in_parts(kind, times, floats, monkeypatch, unopened):
    torch.manual_seed(0)
    model, x = Read(kind(4, 4, 2, batch_first=True), times).double().eval(), sequences()
    monkeypatch.setattr(routes, "CHUNK_FLOATS", floats)
    norms = check(model, x)
    assert norms.engine.slow_names() == []


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("normalised", [False, True])
def test_a_large_function_with_several_uses_or_made_weights_is_exact(
    times, normalised, monkeypatch, unopened
):
    torch.manual_seed(0)
    layer = nn.LSTM(4, 4, batch_first=True)
    if normalised:
        layer = parametrizations.weight_norm(layer, "weight_hh_l0")
    model, x = Read(layer, times).double().eval(), sequences()
    whole = check(model, x)(x)
    monkeypatch.setattr(routes, "CHUNK_FLOATS", 1)
    torch.testing.assert_close(check(model, x)(x), whole, rtol=1e-12, atol=0)


class Steps(nn.Module):
    """A cell called at every step."""

    def __init__(self, cell: nn.Module) -> None:
        super().__init__()
        self.cell, self.head = cell, nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        state, total = None, 0
        for step in x.unbind(1):
            state = self.cell(step, state)
            total = total + (state[1] if isinstance(state, tuple) else state)
        return self.head(total + (state[0] if isinstance(state, tuple) else state))


@pytest.mark.parametrize(
    "make",
    [
        nn.LSTMCell, nn.GRUCell, nn.RNNCell,
        lambda *sizes: nn.LSTMCell(*sizes, bias=False),
        lambda *sizes: nn.GRUCell(*sizes, bias=False),
        lambda *sizes: nn.RNNCell(*sizes, nonlinearity="relu", bias=False),
    ],
)  # fmt: skip
def test_cells_are_measured_by_rule(make, unchecked):
    torch.manual_seed(0)
    model, x = Steps(make(4, 4)).double().eval(), sequences()
    norms = check(model, x)
    assert norms.engine.slow_names() == []
    assert {layer.function for layer in explain(model, x).layers} == {"linear"}
    outputs, _ = norms.engine.squared_norms(x, lambda o, _rows: [o.square().sum(1)])
    torch.testing.assert_close(outputs.detach(), model(x).detach(), rtol=1e-12, atol=1e-14)


def test_a_cell_whose_activations_are_computed_again_is_run_as_a_whole(unchecked):
    class Again(Steps):
        def forward(self, x: Tensor) -> Tensor:
            return checkpoint(super().forward, x, use_reentrant=False)

    torch.manual_seed(0)
    check(Again(nn.GRUCell(4, 4)).double().eval(), sequences())


@wrap_torch_function(lambda x, weight: (x, weight))
def with_memory(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return a result that is made of another."""
    memory = x @ weight
    return memory.tanh(), memory


class Remembering(nn.Module):
    def __init__(self, use) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))
        self.enter, self.head = nn.Linear(4, 4), nn.Linear(4, CLASSES)
        self.use = use

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.use(*with_memory(self.enter(x), self.weight)))


@pytest.mark.parametrize(
    "use",
    [
        lambda first, second: first + second,
        lambda first, _second: first * 2,
        lambda _first, second: second * 2,
    ],
    ids=["both", "first", "second"],
)
def test_results_that_are_made_of_each_other_are_not_counted_twice(use, unchecked):
    torch.manual_seed(0)
    model, x = Remembering(use).double().eval(), sequences()[:, 0]
    assert check(model, x).engine.slow_names() == []


def test_one_of_several_results_may_be_changed_in_place(unchecked):
    torch.manual_seed(0)
    model = Remembering(lambda first, second: first + second.relu_()).double().eval()
    check(model, sequences()[:, 0])
