"""``verify`` holds some samples of a batch against the slow reference."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn

import steepest
from steepest.errors import InputError, VerificationError
from steepest.gradnorm import GradientNorms, engine, verification
from steepest.gradnorm.measure.shares import Dense
from steepest.gradnorm.rules import RULES, Rule


def make():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).eval(), torch.randn(6, 4)


def break_linear(monkeypatch, wrong):
    """Let the rule of linear layers lie about the bias, as ``wrong`` says."""
    honest = RULES[nn.functional.linear]

    def lie(call, g):
        return {**honest.measure(call, g), "bias": Dense(wrong(g.clone()))}

    broken = Rule(lie, honest.arguments, honest.fold)
    monkeypatch.setitem(RULES, nn.functional.linear, broken)
    # The engine itself would notice, and measure the layer in another way.
    monkeypatch.setattr(engine.Engine, "_disproved", lambda *_: set())


def only_sample_four(g):
    g[4:5] *= 3
    return g


@pytest.fixture
def looked_at(monkeypatch):
    """Collect the batch that each verification measures again."""
    seen = []
    honest = verification.reference_norms

    def spy(model, inputs, *args, **kwargs):
        seen.append(inputs)
        return honest(model, inputs, *args, **kwargs)

    monkeypatch.setattr(verification, "reference_norms", spy)
    return seen


def test_a_right_result_passes_and_stays_the_same(looked_at):
    model, x = make()
    assert torch.equal(
        steepest.gradient_norms(model, x, verify=3), steepest.gradient_norms(model, x)
    )
    (rows,) = looked_at
    assert torch.equal(rows, x[[0, 2, 5]])


def test_more_samples_than_there_are_means_all(looked_at):
    model, x = make()
    steepest.gradient_norms(model, x, verify=100)
    assert torch.equal(looked_at[0], x)


def test_nothing_is_looked_at_unless_asked_for(looked_at):
    model, x = make()
    steepest.gradient_norms(model, x)
    steepest.gradient_norms(model, x[:0], verify=2)
    assert not looked_at


def test_a_broken_rule_is_reported_with_sample_parameter_and_remedy(monkeypatch):
    model, x = make()
    break_linear(monkeypatch, only_sample_four)
    with pytest.raises(VerificationError, match=r"sample 4: .*'2\.bias'") as caught:
        steepest.gradient_norms(model, x, verify=6)
    assert "reference_norms" in str(caught.value)
    assert "\n" not in str(caught.value)
    wrong, right = map(float, re.findall(r"\d+\.\d+(?:e-?\d+)?", str(caught.value))[-2:])
    assert wrong == pytest.approx(3 * right, rel=1e-4)


def test_a_sample_that_is_not_looked_at_passes(monkeypatch):
    model, x = make()
    break_linear(monkeypatch, only_sample_four)
    steepest.gradient_norms(model, x, verify=1)
    steepest.gradient_norms(model, x, verify=2)


def test_every_batch_is_verified(monkeypatch, looked_at):
    model, x = make()
    norms = GradientNorms(model, verify=6)
    norms(x)
    norms(x + 1)
    assert len(looked_at) == 2


def test_double_precision_is_held_to_double_precision(monkeypatch):
    model, x = make()
    break_linear(monkeypatch, lambda g: g * 1.0001)
    steepest.gradient_norms(model, x, verify=6)
    with pytest.raises(VerificationError):
        steepest.gradient_norms(model.double(), x.double(), verify=6)


@pytest.mark.parametrize("norm", ["l2", "tensor-sum", "per-tensor"])
def test_any_norm_can_be_verified_with_targets_and_microbatches(monkeypatch, norm):
    model, x = make()
    options = {"norm": norm, "targets": torch.arange(6) % 3, "verify": 6}
    steepest.gradient_norms(model, x, "cross-entropy", microbatch=4, **options)
    break_linear(monkeypatch, only_sample_four)
    with pytest.raises(VerificationError, match="sample 4"):
        steepest.gradient_norms(model, x, "cross-entropy", microbatch=5, **options)


@pytest.mark.parametrize("verify", [-1, 1.5, "all", True])
def test_only_whole_numbers_are_taken(verify):
    model, x = make()
    with pytest.raises(InputError, match="verify must be a whole number of at least 0"):
        steepest.gradient_norms(model, x, verify=verify)
