"""How unsure a prediction is, in the words of ``sraal``."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from steepest.strategies.sraal import object_uncertainty


def one(*shares, classes=10):
    row = torch.zeros(1, classes, dtype=torch.float64)
    row[0, : len(shares)] = torch.tensor(shares)
    return row


def test_one_hot_predictions_have_none():
    assert object_uncertainty(torch.eye(10)).tolist() == pytest.approx([0] * 10, abs=1e-9)


def test_uniform_predictions_have_one_less_the_share_of_a_class():
    for classes in (2, 3, 10, 100):
        uniform = torch.full((1, classes), 1 / classes, dtype=torch.float64)
        assert float(object_uncertainty(uniform)) == pytest.approx(1 - 1 / classes)


def test_the_table_of_known_values():
    assert float(object_uncertainty(one(0.5, 0.5))) == pytest.approx(0.778, abs=5e-4)
    flat = torch.full((1, 10), 0.05, dtype=torch.float64)
    flat[0, 0] = 0.55
    assert float(object_uncertainty(flat)) == pytest.approx(0.45)


def test_the_published_mix_of_variances_gives_one_hot_predictions_some():
    assert float(object_uncertainty(one(1.0), unbiased=True)) == pytest.approx(0.1)


@given(st.lists(st.floats(-8, 8), min_size=2, max_size=12))
def test_it_is_at_least_what_the_largest_share_leaves(logits):
    shares = torch.tensor([logits], dtype=torch.float64).softmax(1)
    found = float(object_uncertainty(shares))
    assert 0 <= found <= 1
    assert found >= 1 - float(shares.max()) - 1e-6
