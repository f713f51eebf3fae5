"""What is held against another computation of the same has to be near it: NaN is near nothing."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import steepest
from steepest.errors import ModelError, NonFiniteError, VerificationError
from steepest.gradnorm import GradientNorms, explain, reference_norms
from steepest.gradnorm.measure.shares import Dense
from steepest.gradnorm.rules import RULES, Rule
from steepest.modules.checks import check_independence
from steepest.modules.precision import differ, largest

NAN, INF = torch.nan, torch.inf


def make():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).eval(), torch.randn(6, 4)


def let_the_bias_be(value, row, monkeypatch):
    """Let the rule of linear layers give a sample of whole batches another gradient of the bias."""
    honest = RULES[nn.functional.linear]

    def lie(call, g):
        bias = g.clone()
        bias[row : row + 1] = value
        return {**honest.measure(call, g), "bias": Dense(bias)}

    broken = Rule(lie, honest.arguments, honest.fold)
    monkeypatch.setitem(RULES, nn.functional.linear, broken)


@pytest.mark.parametrize(
    ("one", "other", "far"),
    [
        (1.0, 1.05, False), (1.0, 1.2, True), (1.0, NAN, True), (NAN, 1.0, True),
        (NAN, NAN, False), (1.0, INF, True), (INF, 1.0, True), (INF, INF, False),
        (-INF, INF, True), (INF, NAN, True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("within", [0.1, torch.tensor([0.1])])
def test_only_numbers_are_near_each_other(one, other, far, within):
    assert differ(torch.tensor([one]), torch.tensor([other]), within).tolist() == [far]


def test_no_tolerance_makes_numbers_that_are_not_finite_near():
    for within in (INF, NAN):
        assert differ(torch.tensor([1.0]), torch.tensor([INF]), within).all()
        assert differ(torch.tensor([1.0]), torch.tensor([NAN]), within).all()


def test_the_largest_number_is_a_finite_one():
    assert largest(torch.tensor([1.0, -3.0, INF, NAN, -INF])) == 3
    assert largest(torch.tensor([-INF])) == largest(torch.zeros(0)) == pytest.approx(1e-6)


@pytest.mark.parametrize("value", [NAN, INF])
@pytest.mark.parametrize("row", [0, 5])
def test_a_rule_that_gives_no_number_is_not_believed(value, row, monkeypatch):
    model, x = make()
    let_the_bias_be(value, row, monkeypatch)
    norms = steepest.gradient_norms(model, x, norm="per-tensor")
    torch.testing.assert_close(norms, reference_norms(model, x, norm="per-tensor"))


@pytest.mark.parametrize("value", [NAN, INF])
def test_where_autograd_gives_no_number_either_the_result_says_so(value):
    model, x = make()
    model[2].bias.register_hook(lambda g: g * value)
    with pytest.raises(NonFiniteError, match="a gradient is NaN or infinite"):
        steepest.gradient_norms(model, x, norm="per-tensor", verify=2)


@pytest.mark.parametrize("value", [NAN, INF])
def test_verify_reports_what_is_no_number(value, monkeypatch):
    model, x = make()
    let_the_bias_be(value, 2, monkeypatch)
    with pytest.raises(VerificationError, match="sample 2: the gradient norm of"):
        steepest.gradient_norms(model, x, verify=6)


@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_an_output_that_is_no_number_among_others_shows_that_samples_mix(value):
    alone, among = torch.ones(2, 3), torch.ones(5, 3)
    check_independence(alone, among)
    among[1, 2] = value
    with pytest.raises(ModelError, match="changes with the other samples"):
        check_independence(alone, among)
    with pytest.raises(ModelError, match="changes with the other samples"):
        check_independence(among[:2], torch.ones(5, 3))
    check_independence(among[:2], among)


def test_a_class_that_is_ruled_out_does_not_hide_the_others():
    alone = torch.tensor([[1.0, 2.0, -INF]])
    check_independence(alone, alone.repeat(4, 1))
    with pytest.raises(ModelError, match="changes with the other samples"):
        check_independence(alone, torch.tensor([[1.0, 2.5, -INF]]))


class LosesNumbers(torch.autograd.Function):
    """A gradient that is lost where it is large."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return g.where(g.abs() < 2, NAN)


class Fragile(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter, self.head = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x):
        return LosesNumbers.apply(self.head(self.enter(x).tanh()))


def test_gradients_go_back_at_a_size_around_one():
    torch.manual_seed(0)
    model, x = Fragile().eval(), torch.randn(8, 4)
    found = GradientNorms(model, norm="per-tensor")(x)
    torch.testing.assert_close(found, reference_norms(model, x, norm="per-tensor"))


class MasksClasses(nn.Module):
    """Words that some samples are told apart by, with a class that is ruled out."""

    def __init__(self):
        super().__init__()
        self.enter, self.head = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x):
        order = x[:, 0].argsort()
        logits = self.head(self.enter(x[order]).tanh())[order.argsort()]
        return logits.masked_fill(torch.tensor([False, False, True]), -INF)


def test_a_class_that_is_ruled_out_is_the_same_in_any_company():
    torch.manual_seed(0)
    model, x = MasksClasses().double().eval(), torch.randn(8, 4).double()
    found = GradientNorms(model, norm="per-tensor")(x)
    torch.testing.assert_close(found, reference_norms(model, x, norm="per-tensor"))
    assert not explain(model, x).slow
