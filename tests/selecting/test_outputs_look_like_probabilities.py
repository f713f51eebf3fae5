"""A model that returns probabilities is told of, and logits never are."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import steepest
from steepest.errors import ProbabilitiesWarning, RegimeWarning
from steepest.modules.probabilities import look_like_probabilities
from steepest.selecting.first_logits import FirstLook
from steepest.tasks import MultiLabel

POOL = torch.randn(20, 4, generator=torch.Generator().manual_seed(0))
SAID = "the outputs look like probabilities: return logits (before softmax or sigmoid)"


def head(classes=3):
    layer = nn.Linear(4, classes)
    with torch.no_grad():
        draws = torch.Generator().manual_seed(1)
        layer.weight.copy_(torch.randn(classes, 4, generator=draws))
        layer.bias.zero_()
    return layer


def softened(classes=3):
    return nn.Sequential(head(classes), nn.Softmax(1))


def told_by(act):
    """Return the warnings of a call, those of the regime left out."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        act()
    return [one for one in told if one.category is not RegimeWarning]


@pytest.mark.parametrize("strategy", ["entropy-gradnorm", "badge", "margin", "core-set", "qbc"])
def test_a_selection_warns_once_of_probabilities(strategy):
    support = steepest.strategies.Support(members=[softened(), softened()])

    def act():
        steepest.select(softened(), POOL, 3, strategy, batch_size=2, support=support)

    (told,) = told_by(act)
    assert told.category is ProbabilitiesWarning
    assert Path(told.filename) == Path(__file__)
    assert str(told.message) == SAID


def test_scores_warn_where_they_were_asked_for():
    (told,) = told_by(lambda: steepest.score(softened(), POOL, "entropy"))
    assert (told.category, Path(told.filename)) == (ProbabilitiesWarning, Path(__file__))


def test_a_part_of_the_pool_warns_once_although_there_are_several_views():
    def act():
        steepest.select(softened(), POOL, 2, "typiclust", subset=8, labelled=[0, 1, 2])

    assert len(told_by(act)) == 1


@pytest.mark.parametrize("strategy", ["entropy-gradnorm", "badge", "entropy"])
@pytest.mark.parametrize("ending", [nn.Identity(), nn.LogSoftmax(1), nn.ReLU(), nn.Sigmoid()])
def test_logits_are_scored_without_a_word(strategy, ending):
    model = nn.Sequential(head(), ending)
    assert not told_by(lambda: steepest.select(model, POOL, 3, strategy))


def test_random_picks_ask_no_model_and_say_nothing():
    assert not told_by(lambda: steepest.select(softened(), POOL, 3, "random"))


@pytest.mark.parametrize(("ending", "warnings"), [(nn.Identity(), 0), (nn.Sigmoid(), 1)])
def test_several_labels_behind_a_sigmoid_are_seen(ending, warnings):
    several = nn.Sequential(head(3), ending)
    task = MultiLabel(classes=3)
    told = told_by(lambda: steepest.select(several, POOL, 3, "entropy", task=task))
    assert len(told) == warnings


@pytest.mark.parametrize(("ending", "warnings"), [(nn.LogSoftmax(1), 0), (nn.Softmax(1), 1)])
def test_label_maps_behind_a_softmax_are_seen(ending, warnings):
    images = torch.randn(6, 2, 4, 4, generator=torch.Generator().manual_seed(0))
    dense = nn.Sequential(nn.Conv2d(2, 3, 1), ending)
    assert len(told_by(lambda: steepest.select(dense, images, 3, "entropy"))) == warnings


def test_a_model_is_left_as_found_when_the_warning_is_an_error():
    model = softened().train()
    with warnings.catch_warnings():
        warnings.simplefilter("error", ProbabilitiesWarning)
        with pytest.raises(ProbabilitiesWarning):
            steepest.select(model, POOL, 3)
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([[0.2, 0.8], [1.0, 0.0]], True),
        ([[0.2, 0.80009], [0.5, 0.49991]], True),
        ([[0.2, 0.8], [0.5, 0.5002]], False),
        ([[0.2, 0.8], [1.5, -0.5]], False),
        ([[0.2, 0.8], [float("nan"), 0.5]], False),
        ([[1.0], [1.0]], False),
    ],
)
def test_rows_count_that_sum_to_one_without_a_negative_number(rows, expected):
    assert look_like_probabilities(torch.tensor(rows)) is expected


def test_no_rows_and_few_logits_of_presence_are_no_probabilities():
    assert not look_like_probabilities(torch.empty(0, 3))
    presence = torch.stack([torch.zeros(16, 2), torch.full((16, 2), 0.5)], dim=1)
    assert look_like_probabilities(presence)
    assert not look_like_probabilities(presence[:15])
    assert not look_like_probabilities(2.5 * presence)


@given(st.integers(1, 50), st.integers(2, 1000), st.integers(0, 9))
@settings(max_examples=25, deadline=None)
def test_every_softmax_is_seen_and_no_logits_are_taken_for_one(samples, classes, seed):
    logits = torch.randn(samples, classes, generator=torch.Generator().manual_seed(seed))
    assert look_like_probabilities((3 * logits).softmax(1))
    assert not look_like_probabilities(logits)


def test_only_the_first_logits_are_looked_at():
    first = FirstLook()
    first.note(None)
    assert not first.done
    first.note(torch.zeros(2, 2))
    first.note(torch.full((2, 2), 0.5))
    assert (first.done, first.probabilities) == (True, False)
