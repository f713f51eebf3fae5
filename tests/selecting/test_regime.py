"""The regime of a selection: how unsure a model is, and whether the most unsure come last."""

from __future__ import annotations

import math

import numpy as np
import pytest

from steepest.selecting.regime import diagnose


def test_entropies_are_told_as_a_share_of_the_most_there_can_be():
    regime = diagnose(np.array([1.0, 2.0]), np.array([0.0, math.log(4)]), classes=4)
    assert regime.entropy_ratio == pytest.approx(0.5)
    assert regime.samples == 2


@pytest.mark.parametrize(("sign", "inverted"), [(1.0, False), (-1.0, True)])
def test_the_most_uncertain_ranked_last_are_inverted(sign, inverted):
    entropies = np.linspace(0.1, 1.0, 12)
    regime = diagnose(sign * entropies, entropies, classes=4)
    assert regime.rank_correlation == pytest.approx(sign)
    assert regime.inverted is inverted


def test_without_scores_or_entropies_nothing_is_inverted():
    assert diagnose(np.ones(3), None, classes=4) is None
    assert not diagnose(None, np.ones(3), classes=4).inverted
