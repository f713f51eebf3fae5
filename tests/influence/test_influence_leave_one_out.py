from __future__ import annotations

import json
import sys

import pytest
import torch
from influence_nets import TASK, draw, labels, mlp, seeded
from model_state import same, snapshot
from torch import nn

from steepest.errors import InputError, ModelError
from steepest.influence import (
    Examples,
    Objective,
    gauss_newton,
    influence_on_test,
    leave_one_out,
    solve_dense,
    summed_gradient,
    vectors,
)

QUIET = {"progress": False}
DECAY = 0.02


def clean(count: int, seed: int) -> Examples:
    """Three clusters."""
    y = labels(count, seed)
    centres = 1.5 * torch.eye(3, 4, dtype=torch.float64)
    return Examples(centres[y] + draw(count, 4, seed=seed, purpose="noise"), y)


def noisy(count: int, seed: int) -> Examples:
    """The same with some labels wrong, so that examples differ in what they do."""
    examples = clean(count, seed)
    wrong = torch.arange(count) % 7 == 3
    other = (examples.targets + 1) % 3
    return Examples(examples.inputs, torch.where(wrong, other, examples.targets))


def logistic_regression() -> nn.Module:
    return seeded(nn.Linear(4, 3)).float()


@pytest.fixture(scope="module")
def truth():
    return leave_one_out(
        logistic_regression(), TASK, noisy(60, 0), clean(40, 1), weight_decay=DECAY, **QUIET
    )


def test_influence_predicts_what_leaving_out_an_example_does(truth):
    train, test = noisy(60, 0), clean(40, 1)
    curvature = gauss_newton(truth.model, TASK, train, weight_decay=DECAY)
    s = solve_dense(curvature, summed_gradient(truth.model, TASK, test), **QUIET)
    predicted = influence_on_test(truth.model, TASK, train, s, **QUIET).values / 60
    table = torch.stack([predicted, truth.effects])
    centred = table - table.mean(1, keepdim=True)
    slope = float((centred[0] * centred[1]).sum() / centred[0].square().sum())
    assert float(torch.corrcoef(table)[0, 1]) >= 0.95
    assert 0.7 <= slope <= 1.4


def test_effects_are_those_of_trainings_from_scratch(truth):
    train, test = noisy(60, 0), clean(40, 1)

    def loss_of_optimum(kept):
        weights = torch.zeros(3, 5, dtype=torch.float64, requires_grad=True)
        x = torch.cat([train.inputs, torch.ones(60, 1, dtype=torch.float64)], dim=1)[kept]
        for _ in range(30):

            def value(w):
                losses = nn.functional.cross_entropy(x @ w.T, train.targets[kept], reduction="sum")
                return losses / 60 + DECAY / 2 * w.square().sum()

            slope = torch.autograd.functional.jacobian(value, weights.detach()).reshape(-1)
            curved = torch.autograd.functional.hessian(value, weights.detach()).reshape(15, 15)
            weights = weights.detach() - torch.linalg.solve(curved, slope).reshape(3, 5)
        ones = torch.ones(40, 1, dtype=torch.float64)
        logits = torch.cat([test.inputs, ones], dim=1) @ weights.T
        return float(nn.functional.cross_entropy(logits, test.targets, reduction="sum"))

    every = torch.arange(60)
    before = loss_of_optimum(every)
    for row in (0, 17, 59):
        wanted = loss_of_optimum(every[every != row]) - before
        assert float(truth.effects[row]) == pytest.approx(wanted, abs=1e-5)


def test_the_model_returned_is_at_the_optimum_in_double_precision(truth):
    slope = Objective(truth.model, TASK, noisy(60, 0), weight_decay=DECAY).gradient()
    assert vectors.norm(slope) < 2e-8
    assert truth.gradient_norm <= 1e-8
    assert truth.model.weight.dtype == torch.float64


def test_harmful_and_helpful_examples_are_both_found(truth):
    wrong = torch.arange(60) % 7 == 3
    assert float(truth.effects[wrong].mean()) < 0 < float(truth.effects[~wrong].mean())


def test_some_rows_can_be_asked_for_and_the_model_given_is_not_changed(truth):
    model = logistic_regression().train()
    before = snapshot(model)
    found = leave_one_out(
        model, TASK, noisy(60, 0), clean(40, 1), weight_decay=DECAY, rows=[5, 2], **QUIET
    )
    assert found.rows.tolist() == [5, 2]
    assert torch.allclose(found.effects, truth.effects[[5, 2]], atol=1e-5)
    assert same(before, snapshot(model))
    assert json.loads(json.dumps(found.to_table()))["rows"] == [5, 2]


def test_without_weight_decay_it_is_refused():
    with pytest.raises(InputError, match="weight_decay is 0"):
        leave_one_out(logistic_regression(), TASK, noisy(9, 0), clean(4, 1), weight_decay=0.0)


def test_a_training_that_reaches_no_optimum_is_an_error(monkeypatch):
    module = sys.modules["steepest.influence.leave_one_out"]
    monkeypatch.setattr(module, "_ROUNDS", 1)
    monkeypatch.setattr(module, "_TOLERANCE", 1e-30)
    with pytest.raises(ModelError, match="no optimum was reached"):
        leave_one_out(mlp(), TASK, noisy(9, 0), clean(4, 1), weight_decay=1e-6, **QUIET)
