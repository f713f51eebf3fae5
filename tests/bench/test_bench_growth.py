"""How time grows is measured on batches and pools, and fitted as a power."""

from __future__ import annotations

import pytest
import torch
from fake_contenders import FakeTime, replace_contender
from torch import nn

from steepest.bench.case import Case
from steepest.bench.contenders.base import Step
from steepest.bench.growth import fit_exponent, measure_growth


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_the_exponent_of_a_power_is_found(power):
    sizes = [3, 6, 12, 50]
    assert fit_exponent(sizes, [7 * size**power for size in sizes]) == pytest.approx(power)


def test_time_per_sample_and_per_pool_is_that_of_the_contender(monkeypatch):
    fake = FakeTime()

    def costing(fixed, each):
        def prepare(case):
            return Step(fake.work("x", [fixed + each * case.samples]), case.samples)

        return prepare

    replace_contender(monkeypatch, "plain", costing(6.0, 1.0))
    replace_contender(monkeypatch, "ours", costing(0.0, 3.0))
    case = Case(nn.Linear(2, 2).eval(), torch.ones(6, 2), clock=fake.clock)
    plain, ours = measure_growth(case, rounds=2)
    assert (plain.contender, ours.contender) == ("plain", "ours")
    assert plain.batches == ours.batches == (1, 2, 4, 6)
    assert plain.batch_seconds == pytest.approx((7, 4, 2.5, 2))
    assert ours.batch_seconds == pytest.approx((3, 3, 3, 3))
    assert plain.pools == (6, 12, 24, 48)
    assert ours.pool_seconds == pytest.approx((18, 36, 72, 144))
    assert plain.pool_exponent == pytest.approx(1)
