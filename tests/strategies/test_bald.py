"""BALD: mutual information of label and network."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import steepest
from steepest.errors import InputError
from steepest.models import build
from steepest.strategies import create

pytestmark = pytest.mark.filterwarnings("ignore::steepest.errors.RegimeWarning")


def images(n=12):
    generator = torch.Generator().manual_seed(3)
    return torch.randn(n, 1, 8, 8, dtype=torch.float64, generator=generator) * 3


def score(name, rate=0.5, **options):
    model = build("small-cnn", 3, 1, 0, {"dropout": "head", "dropout_rate": rate}).double()
    with torch.no_grad():
        model.fc.weight.mul_(50)  # sure of itself, as trained nets are
    return steepest.score(model, images(), name, options=options, seed=4, progress=False).values


def test_it_is_the_mutual_information_of_mc_dropout():
    assert np.array_equal(score("bald", draws=9), score("mc-dropout", measure="bald", draws=9))


def test_it_lies_between_zero_and_the_logarithm_of_draws_and_classes():
    for draws in (1, 2, 40):
        found = score("bald", rate=0.9, draws=draws)
        assert found.min() >= 0
        assert found.max() <= min(math.log(draws), math.log(3)) + 1e-12
    assert (score("bald", draws=1) == 0).all()
    assert (score("bald", rate=0.0) == 0).all()
    assert score("bald", rate=0.9).min() > 0


def test_contradiction_counts_and_doubt_does_not():
    class Opinions(torch.nn.Module):
        """Column 0 is what networks contradict each other about, column 1 is what none knows."""

        def __init__(self):
            super().__init__()
            self.drop = torch.nn.Dropout(0.5)

        def forward(self, x):
            return self.drop(x[:, :2]) + x[:, 2:]

    torn = [40.0, 0.0, -40.0, 0.0]
    unsure = [0.0, 0.0, 0.0, 0.0]
    x = torch.tensor([torn, unsure], dtype=torch.float64)
    torn_value, unsure_value = steepest.score(
        Opinions(), x, "bald", options={"draws": 200}, progress=False
    ).values
    assert torn_value == pytest.approx(math.log(2), abs=0.02)
    assert unsure_value == 0


def test_options_are_those_of_dropout():
    assert create("bald").model_options() == {"dropout": "head"}
    assert create("bald", {"placement": "given"}).model_options() == {}
    with pytest.raises(InputError, match="bald: draws"):
        create("bald", {"draws": 0})
