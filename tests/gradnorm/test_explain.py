"""``explain`` says how each use of parameters was measured, in words and numbers."""

from __future__ import annotations

import pytest
import torch
from model_state import same, snapshot
from torch import Tensor, nn
from torch.nn import functional as F

from steepest.errors import InputError, ModelError
from steepest.gradnorm import Explanation, explain


class Net(nn.Module):
    """By rule, run again sample by sample, used twice, frozen and unused."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(2, 4, 3, padding=1)
        self.norm = nn.BatchNorm1d(4)
        self.mix = nn.Parameter(torch.randn(4, 4))
        self.again = nn.Linear(4, 4)
        self.frozen = nn.Linear(4, 4).requires_grad_(requires_grad=False)
        self.unused = nn.Linear(4, 4)
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.conv(x)).mean(2)
        y = F.cosine_similarity(y[:, None], self.mix, dim=2)
        y = self.again(self.again(y).tanh())
        return self.head(self.frozen(y).tanh())


class Cubic(torch.autograd.Function):
    """Nothing can be seen of what happens in here."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x**3 * weight

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        return 3 * x**2 * weight * g, (x**3 * g).sum(0)


class Hidden(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 5), nn.Linear(5, 3)
        self.weight = nn.Parameter(torch.randn(5))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(Cubic.apply(self.body(x), self.weight))


@pytest.fixture
def found() -> Explanation:
    torch.manual_seed(0)
    return explain(Net().eval(), torch.randn(5, 2, 6))


def test_every_use_is_there_in_the_order_of_the_forward_pass(found):
    assert [(layer.parameters, layer.function) for layer in found.layers] == [
        (("conv.weight", "conv.bias"), "conv1d"),
        (("norm.weight", "norm.bias"), "batch_norm"),
        (("mix",), "cosine_similarity"),
        (("again.weight", "again.bias"), "linear"),
        (("again.weight", "again.bias"), "linear"),
        (("head.weight", "head.bias"), "linear"),
    ]
    assert found.slow == ()
    assert found.samples == 5


def test_a_function_without_a_rule_is_said_to_run_sample_by_sample(found):
    routes = {layer.function: layer.route for layer in found.layers}
    assert routes["cosine_similarity"] == "vmap"
    assert routes["batch_norm"] == "closed form"
    assert routes["conv1d"] not in {"sample by sample", "–"}
    assert found.layers[-1].route == "closed form"


def test_every_use_of_a_shared_weight_has_the_route_on_which_all_are_added():
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.head = nn.Embedding(7, 4), nn.Linear(4, 7)
            self.again = nn.Linear(4, 4, bias=False)
            self.head.weight = self.words.weight

        def forward(self, ids: Tensor) -> Tensor:
            y = self.words(ids).mean(1)
            return self.head(self.again(self.again(self.again(y).tanh()).tanh()))

    torch.manual_seed(0)
    found = explain(Tied().eval(), torch.randint(7, (5, 3)))
    assert [layer.function for layer in found.layers] == ["embedding", *["linear"] * 4]
    assert [layer.route for layer in found.layers] == ["instantiate"] * 5


def test_shapes_are_those_of_the_batch(found):
    assert found.layers[0].returned == ((5, 4, 6),)
    assert found.layers[-1].returned == ((5, 3),)
    assert (4, 2, 3) in found.layers[0].given


def test_times_are_shares_of_the_whole(found):
    assert found.seconds > 0
    assert all(layer.seconds >= 0 for layer in found.layers)
    assert sum(layer.seconds for layer in found.layers) <= found.seconds
    for layer in found.layers:
        assert layer.share == pytest.approx(layer.seconds / found.seconds)
        assert layer.scratch_bytes >= 0
    assert any(layer.scratch_bytes > 0 for layer in found.layers)


def test_the_table_has_a_line_for_each_use_and_one_for_the_rest(found):
    lines = str(found).splitlines()
    assert lines[0].split() == ["parameters", "function", "route", "returns", "time", "scratch"]
    assert len(lines) == 1 + len(found.layers) - 1 + 1  # One is called twice in a row.
    assert sum("linear, 2 times" in line for line in lines) == 1
    assert lines[1].split()[:3] == ["conv.weight", "+1", "conv1d"]
    assert "5×4×6" in lines[1]
    assert lines[3].startswith("mix ")
    assert "vmap" in lines[3]
    assert lines[-1].startswith("forward, backward and the rest: ")
    assert lines[-1].endswith(" ms for 5 samples")


def test_parameters_that_take_the_whole_model_are_named():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).eval()
    model[0].weight.register_hook(lambda g: g * 2)
    found = explain(model, torch.randn(4, 4))
    assert found.slow == ("0.weight",)
    assert str(found).splitlines()[-1] == "sample by sample through the whole model: 0.weight"
    assert [layer.parameters for layer in found.layers] == [("0.bias",), ("2.weight", "2.bias")]


def test_parameters_that_fall_out_on_the_way_are_named_too():
    torch.manual_seed(0)
    found = explain(Hidden().eval(), torch.randn(4, 4))
    assert found.slow == ("weight",)


def test_functions_with_several_results_are_there(monkeypatch):
    monkeypatch.setattr("steepest.gradnorm.watch.calls.can_be_opened", lambda *_: False)

    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.head = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.lstm(x)[0].mean(1))

    torch.manual_seed(0)
    found = explain(Recurrent().eval(), torch.randn(4, 5, 3))
    assert [layer.function for layer in found.layers] == ["lstm", "linear"]
    assert found.layers[0].route == "vmap"


def test_the_steps_of_a_recurrent_layer_are_one_line():
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn, self.head = nn.GRU(3, 4, batch_first=True), nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.rnn(x)[0].mean(1))

    torch.manual_seed(0)
    lines = str(explain(Recurrent().eval(), torch.randn(4, 5, 3))).splitlines()[1:-1]
    found = [(line.split()[0], "5 times" in line) for line in lines]
    assert found == [
        ("rnn.weight_ih_l0", False),
        ("rnn.weight_hh_l0", True),
        ("head.weight", False),
    ]


def test_losses_of_any_kind_that_need_no_labels_can_be_explained():
    torch.manual_seed(0)
    model, x = nn.Linear(4, 3).eval(), torch.randn(4, 4)
    for loss in ("pseudo-label", lambda z: F.softplus(z).sum(1)):
        (layer,) = explain(model, x, loss).layers
        assert layer.function == "linear"
    with pytest.raises(InputError, match="needs targets"):
        explain(model, x, "cross-entropy")


def test_losses_with_labels_can_be_explained_with_them():
    torch.manual_seed(0)
    model, x, labels = nn.Linear(4, 3).eval(), torch.randn(4, 4), torch.arange(4) % 3
    (layer,) = explain(model, x, "cross-entropy", targets=labels).layers
    assert layer.route == "closed form"
    with pytest.raises(InputError, match="3 targets for 4 samples"):
        explain(model, x, "cross-entropy", targets=labels[:3])


def test_the_model_is_left_as_found():
    torch.manual_seed(0)
    model, x = Net().eval(), torch.randn(5, 2, 6)
    before = snapshot(model)
    explain(model, x)
    assert same(snapshot(model), before)
    with pytest.raises(ModelError):
        explain(model.train(), x)
