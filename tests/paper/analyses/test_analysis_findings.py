"""The identity of the two schemes, and the regime over training."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import torch
from analysis_nets import CLASSES, TASK, net, points, trained

from steepest.core.tables import to_table
from steepest.errors import InputError
from steepest.paper.analyses import compare_schemes
from steepest.paper.artefacts.regime import RegimePoint, bucket_regimes, regime_points
from steepest.selecting.regime import Regime
from steepest.tasks import Classification


def test_the_two_schemes_are_one_function_for_plain_cross_entropy():
    model = trained(net(), points(30))
    found = compare_schemes(model, TASK, points(80, seed=2))
    assert found.samples == 80
    assert found.relative_difference < 1e-13
    assert found.largest_norm > 0.01
    assert found.rank_correlation == pytest.approx(1)
    assert found.same_order
    json.dumps(to_table(found), allow_nan=False)


def test_the_two_schemes_differ_for_another_training_loss():
    found = compare_schemes(net(), Classification(CLASSES, label_smoothing=0.3), points(40))
    assert found.relative_difference > 1e-3
    assert not found.same_order
    assert found.moved > 0


def test_a_model_in_single_precision_is_compared_in_double_and_left_as_it_is():
    model = net().float()
    before = [p.clone() for p in model.parameters()]
    found = compare_schemes(model, TASK, points(20), batch_size=7)
    assert found.relative_difference < 1e-13
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def record(cycle, accuracy, correlation, strategy="entropy-gradnorm"):
    regime = None if correlation is None else Regime(0.5, correlation, 10)
    return SimpleNamespace(
        cycle=cycle, strategy=strategy, metrics={"accuracy": accuracy}, regime=regime
    )


def test_points_come_from_the_records_of_the_strategy_that_is_meant():
    records = [record(0, 0.2, -0.9), record(1, 0.8, 0.7), record(2, 0.9, None)]
    found = regime_points([*records, record(3, 0.5, 0.5, "margin")], "seed 0")
    assert [(p.accuracy, p.rank_correlation) for p in found] == [(0.2, -0.9), (0.8, 0.7)]
    assert found[0].where == "seed 0 cycle 0"


def test_models_are_gathered_by_accuracy():
    points_ = [
        RegimePoint(accuracy, 0.5, correlation, "")
        for accuracy, correlation in [(0.3, -0.5), (0.31, -0.05), (0.79, 0.6), (1.0, 0.9)]
    ]
    found = bucket_regimes(points_)
    assert [(b.low, b.high, b.models) for b in found] == [
        (0.3, 0.4, 2),
        (0.7, 0.8, 1),
        (0.9, 1.0, 1),
    ]
    assert (found[0].inverted, found[0].lowest, found[0].highest) == (1, -0.5, -0.05)
    assert found[0].mean == pytest.approx(-0.275)
    json.dumps([to_table(b) for b in found], allow_nan=False)


@pytest.mark.parametrize("width", [0.0, -0.1, 0.3, 2.0])
def test_buckets_that_do_not_make_one_are_refused(width):
    with pytest.raises(InputError, match="do not make 1"):
        bucket_regimes([], width)
