"""Models that mislead a watcher: exact at any batch size, and left as found with their inputs."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from hard_models import HARD, Net, time_first, tokens, vectors
from model_state import same, snapshot
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import steepest
from steepest.errors import ModelError
from steepest.gradnorm import GradientNorms, explain, reference_norms
from steepest.gradnorm.engine import Engine
from steepest.modules.losses import entropy

SAMPLES = (2, 3, 7)


def double(inputs: Tensor) -> Tensor:
    return inputs.double() if inputs.is_floating_point() else inputs


def truth(model: nn.Module, inputs: Tensor, loss="entropy") -> Tensor:
    """Measure copies of single samples through copies of the model: nothing can be left over."""
    rows = [
        reference_norms(copy.deepcopy(model), inputs[i : i + 1].clone(), loss, norm="per-tensor")
        for i in range(len(inputs))
    ]
    return torch.cat(rows)


def check(norms: GradientNorms, model: nn.Module, inputs: Tensor, loss="entropy") -> None:
    expected = truth(model, inputs, loss)
    assert (expected > 0).any()
    torch.testing.assert_close(norms(inputs), expected, rtol=1e-6, atol=1e-9)


def attributes(model: nn.Module) -> list[dict[str, int]]:
    """Return what every module holds, by identity, and how much is in what it holds."""
    return [
        {k: (id(v), len(v) if isinstance(v, dict) else 0) for k, v in vars(module).items()}
        for module in model.modules()
    ]


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("name", HARD)
def test_hard_models_are_exact_and_left_as_found(name):
    make, draw = HARD[name]
    torch.manual_seed(0)
    model = make().double().eval()
    across = GradientNorms(model, norm="per-tensor")
    for samples in SAMPLES:
        inputs = double(draw(samples))
        given, before, held = inputs.clone(), snapshot(model), attributes(model)
        check(GradientNorms(model, norm="per-tensor"), model, inputs)
        check(across, model, inputs)
        assert torch.equal(inputs, given)
        assert not inputs.requires_grad
        assert same(snapshot(model), before)
        assert attributes(model) == held


@pytest.mark.parametrize("name", ["view kept", "copies kept by size", "hook on a derived weight"])
def test_a_model_that_keeps_views_can_be_trained_afterwards(name):
    make, draw = HARD[name]
    torch.manual_seed(0)
    model, x = make().eval(), draw(3)
    steepest.gradient_norms(model, x)
    model(x).sum().backward()
    used = model.body.weight if name.startswith("hook") else model.p
    assert used.grad is not None
    assert used.grad.any()


def test_a_view_that_was_made_beforehand_is_exact():
    class Halved(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(16, 5, dtype=torch.float64))
            self.head = nn.Linear(8, 3).double()
            self.half = [self.weight[:8]]

        def forward(self, x: Tensor) -> Tensor:
            return self.head(F.linear(x, self.half[0]).relu())

    torch.manual_seed(0)
    model, x = Halved().eval(), vectors(7).double()
    found = steepest.gradient_norms(model, x, norm="per-tensor")
    torch.testing.assert_close(found, reference_norms(model, x, norm="per-tensor"))


def test_gradients_that_start_at_zero_do_not_settle_where_the_samples_are():
    torch.manual_seed(0)
    model, x = Net(time_first).double().eval(), tokens(7).double()
    for parameter in model.head.parameters():
        nn.init.zeros_(parameter)
    norms = GradientNorms(model, norm="per-tensor")
    norms(x)
    with torch.no_grad():
        model.head.weight.normal_()
    check(norms, model, x)


def test_samples_without_a_gradient_do_not_hide_those_with_one():
    def hinge(outputs):
        return (outputs[:, 0] - outputs[:, 1]).relu()

    torch.manual_seed(0)
    model, x = Net(time_first).double().eval(), tokens(12).double()
    values = hinge(model(x))
    assert 0 < (values == 0).sum() < 12
    x = x[values.argsort(stable=True)]
    check(GradientNorms(model, hinge, norm="per-tensor"), model, x, hinge)


def test_a_head_that_only_the_second_loss_touches_is_exact():
    def heads(net, x):
        left, right = (
            layer(x.transpose(0, 1).reshape(-1, 5)).relu().view(4, len(x), -1).mean(0)
            for layer in (net.body, net.other)
        )
        return {"first": net.head(left), "second": net.end(right)}

    def squares_of(name: str) -> Callable[..., Tensor]:
        return lambda outputs: outputs[name].square().sum(1)

    torch.manual_seed(0)
    model = Net(heads, other=nn.Linear(5, 8), end=nn.Linear(8, 3)).double().eval()
    x, several = tokens(7).double(), [squares_of("first"), squares_of("second")]
    _, found = Engine(model).squared_norms(x, lambda o, _rows: [loss(o) for loss in several])
    for loss, squares in zip(several, found, strict=True):
        torch.testing.assert_close(squares.sqrt(), truth(model, x, loss))


@pytest.mark.parametrize(
    "ranks",
    [
        [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        [1.0, 2.0, 0.0],
    ],
)
def test_samples_that_happen_to_be_in_order_do_not_hide_a_sort(ranks):
    torch.manual_seed(0)
    model, x = HARD["sorted"][0]().double().eval(), vectors(len(ranks)).double()
    x[:, 0] = torch.tensor(ranks)
    check(GradientNorms(model, norm="per-tensor"), model, x)


def branches(net, x):
    """Other functions of other parameters for large numbers."""
    extra = torch.add(net.p, net.q) if bool(x.max() > 50) else None
    y = torch.add(net.body(x), net.c)
    return net.head((y if extra is None else y + extra).tanh())


@pytest.mark.parametrize("large_first", [False, True])
def test_a_plan_that_does_not_hold_for_a_later_batch_gives_no_wrong_number(large_first):
    torch.manual_seed(0)
    model = Net(branches, p=torch.randn(8), q=torch.randn(8), c=torch.randn(8)).double().eval()
    small, large = vectors(6).double(), vectors(6).double()
    large[:, 0] += 100
    model.body.weight.data[:, 0] = 0.01  # Large numbers shall not saturate.
    norms = GradientNorms(model, norm="per-tensor")
    for x in (large, small, large) if large_first else (small, large, small):
        check(norms, model, x)


def tiny() -> nn.Sequential:
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 3)).double()


def assign(model: nn.Sequential) -> None:
    model.load_state_dict(tiny().state_dict(), assign=True)


def replace(model: nn.Sequential) -> None:
    model[3] = nn.Linear(8, 4).double().eval()


def freeze(model: nn.Sequential) -> None:
    model[0].requires_grad_(requires_grad=False)


def unfreeze(model: nn.Sequential) -> None:
    model[3].requires_grad_(requires_grad=True)


@pytest.mark.parametrize("change", [assign, replace, freeze, unfreeze])
def test_parameters_that_are_replaced_or_frozen_between_calls_are_noticed(change):
    torch.manual_seed(0)
    model, x = tiny().eval(), vectors(7).double()
    model[3].requires_grad_(requires_grad=change is not unfreeze)
    norms = GradientNorms(model, norm="per-tensor")
    norms(x)
    change(model)
    check(norms, model.eval(), x)


def test_a_model_that_is_put_into_training_mode_between_calls_is_refused():
    model, x = tiny().eval(), vectors(7).double()
    norms = GradientNorms(model)
    norms(x)
    model.train()
    with pytest.raises(ModelError, match=r"training mode: call model\.eval\(\)"):
        norms(x)
    assert model.training


def test_another_precision_of_the_input_costs_no_loop():
    def cast(net, x):
        return net.head(net.body(x.type_as(net.body.weight)).relu())

    torch.manual_seed(0)
    model, x = Net(cast).eval(), vectors(7)
    found = explain(model, x)
    assert found.slow == ()
    assert {layer.route for layer in found.layers if layer.function == "linear"} == {"closed form"}
    assert "sample by sample" not in {layer.route for layer in found.layers}


def test_a_loss_may_use_the_parameters_itself():
    torch.manual_seed(0)
    model, x = Net(lambda net, x: net.head(net.body(x).tanh())).double().eval(), vectors(7).double()

    def decayed(outputs):
        return entropy(outputs) + model.body.weight.square().sum()

    found = steepest.gradient_norms(model, x, decayed, norm="per-tensor")
    torch.testing.assert_close(found, reference_norms(model, x, decayed, norm="per-tensor"))


class NoWayBack(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        raise RuntimeError("nothing to give")


def overwritten(net, x):
    y = net.body(x)
    y.sigmoid_().mul_(2)
    return net.head(y)


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad:UserWarning")
@pytest.mark.parametrize(
    ("run", "message"),
    [
        (overwritten, "overwrites in place"),
        (lambda net, x: net.head(NoWayBack.apply(net.body(x))), "nothing to give"),
        (lambda net, x: net.head(torch.special.zeta(net.body(x).abs() + 2, x[:, :1])), "zeta"),
        (
            lambda net, x: net.head(checkpoint(torch.tanh, net.body(x), use_reentrant=True)),
            "use_reentrant",
        ),
    ],
    ids=["overwritten", "raises", "no derivative", "reentrant"],
)
def test_backward_passes_that_fail_are_refused_in_one_line(run, message):
    model, x = Net(run).eval(), vectors(7).abs().requires_grad_()
    before = snapshot(model)
    with pytest.raises(ModelError, match=message) as caught:
        steepest.gradient_norms(model, x)
    assert "\n" not in str(caught.value)
    assert same(snapshot(model), before)


@pytest.mark.parametrize(
    "part", [torch.zeros(3).to(torch.float8_e4m3fn), torch.zeros(3, device="meta")]
)
def test_unused_parameters_of_any_kind_are_no_obstacle(part):
    torch.manual_seed(0)
    model, x = Net(lambda net, x: net.head(net.body(x).tanh())).eval(), vectors(7)
    plain = steepest.gradient_norms(model, x)
    model.more = nn.ParameterList([nn.Parameter(part)]).eval()
    torch.testing.assert_close(steepest.gradient_norms(model, x), plain)
