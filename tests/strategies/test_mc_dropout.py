"""MC-dropout: its four measures, what no dropout gives, dense outputs, and experiments' options."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from model_state import same, snapshot
from torch import nn

import steepest
from steepest.errors import InputError, ModelError, NonFiniteError
from steepest.models import build
from steepest.modules.draws import dropout_draws
from steepest.strategies import create
from steepest.strategies.disagreement import TIE, Tally, disagreement

pytestmark = pytest.mark.filterwarnings("ignore::steepest.errors.RegimeWarning")

MEASURES = ("entropy", "bald", "variation-ratio", "mean-std")


def net(rate=0.5, placement="head"):
    options = {"dropout": placement, "dropout_rate": rate}
    model = build("small-cnn", 4, 1, 0, options).double().eval()
    with torch.no_grad():
        model.fc.weight.mul_(50)  # sure of itself, as trained nets are
    return model


def images(n=9):
    generator = torch.Generator().manual_seed(3)
    return torch.randn(n, 1, 8, 8, dtype=torch.float64, generator=generator) * 3


def score(model, x, seed=2, **options):
    found = steepest.score(model, x, "mc-dropout", options=options, seed=seed, progress=False)
    return found.values


def by_hand(p, measure):
    """The measures of probabilities [T, N, C, ...], all draws at once; the mean over positions."""
    mean = p.mean(0)
    entropy = -(mean * mean.log()).sum(1)
    votes = nn.functional.one_hot(p.argmax(2), p.shape[2]).sum(0).movedim(-1, 1).double()
    each = {
        "entropy": entropy,
        "bald": entropy + (p * p.log()).sum(2).mean(0),
        "variation-ratio": 1
        - votes.amax(1) / len(p)
        + TIE / len(p) * entropy / math.log(p.shape[2]),
        "mean-std": p.std(0, correction=0).mean(1),
    }[measure]
    return each.flatten(1).mean(1) if each.ndim > 1 else each


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("placement", ["head", "blocks"])
def test_measures_equal_their_formulas(measure, placement):
    model, x = net(placement=placement), images()
    p = torch.stack(list(dropout_draws(model, x, 11, 2))).softmax(2)
    wanted = by_hand(p, measure)
    np.testing.assert_allclose(
        score(model, x, measure=measure, draws=11), wanted, rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("measure", MEASURES)
def test_dense_outputs_average_over_pixels(measure):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Dropout2d(0.5), nn.Conv2d(4, 3, 1)).double()
    x = images(4)
    p = torch.stack(list(dropout_draws(model.eval(), x, 6, 2))).softmax(2)
    assert p.shape == (6, 4, 3, 6, 6)
    found = score(model, x, measure=measure, draws=6)
    np.testing.assert_allclose(found, by_hand(p, measure), rtol=1e-9, atol=1e-12)


def test_without_dropping_networks_agree():
    model, x = net(rate=0.0), images()
    entropy = steepest.score(model, x, "entropy", progress=False).values
    np.testing.assert_allclose(score(model, x), entropy, rtol=1e-12)
    assert (score(model, x, measure="bald") == 0).all()
    assert (score(model, x, measure="mean-std") == 0).all()
    assert (score(model, x, measure="variation-ratio") <= TIE).all()


def test_probabilities_are_averaged_and_not_logits():
    sure = torch.tensor([[30.0, 0.0]])
    found = disagreement([sure, sure.flip(1)], "mean-entropy")
    assert float(found) == pytest.approx(math.log(2))
    lopsided = torch.tensor([[90.0, 0.0]])
    assert float(disagreement([lopsided, sure.flip(1)], "mean-entropy")) == pytest.approx(
        math.log(2)
    )


def test_mutual_information_is_bounded_by_draws_and_classes():
    generator = torch.Generator().manual_seed(0)
    for draws, classes in ((2, 10), (10, 3)):
        logits = torch.randn(draws, 500, classes, generator=generator) * 30
        found = disagreement(logits, "mutual-information")
        assert float(found.min()) >= 0
        assert float(found.max()) <= min(math.log(draws), math.log(classes)) + 1e-12
        assert float(found.max()) > 0.8 * min(math.log(draws), math.log(classes))


def test_ties_of_the_variation_ratio_are_ranked_by_entropy_and_votes_come_first():
    split = torch.tensor([[[9.0, 0, 0], [0.2, 0, 0]], [[9.0, 0, 0], [0.1, 0, 0]]])
    sure, unsure = disagreement(split, "variation-ratio").tolist()
    assert 0 < sure < unsure <= TIE
    one_dissents = torch.tensor([[[9.0, 0, 0]]] * 24 + [[[0, 9.0, 0]]])
    assert float(disagreement(one_dissents, "variation-ratio")) > 0.04 - 1e-12
    assert unsure < float(disagreement(one_dissents, "variation-ratio"))


def test_a_tally_takes_single_precision_and_refuses_to_measure_nothing():
    with pytest.raises(InputError, match="no prediction"):
        Tally("mean-entropy").value()
    tally = Tally("mean-std")
    for shift in (0.0, 1.0):
        tally.add(torch.tensor([[0.0, shift]], dtype=torch.float32))
    assert tally.value().dtype == torch.float64


@pytest.mark.parametrize("placement", ["head", "blocks"])
def test_statistics_stay_and_the_batch_does_not_matter(placement):
    model, x = net(placement=placement), images()
    model.train()
    before = snapshot(model)
    whole = score(model, x)
    assert same(snapshot(model), before)
    split = steepest.score(model, x, "mc-dropout", seed=2, batch_size=2, progress=False).values
    np.testing.assert_allclose(split, whole, rtol=1e-9)
    assert not np.allclose(score(model, x, seed=5), whole, rtol=1e-3)


def test_a_thousand_draws_of_a_head_run_the_backbone_once():
    model = net()
    calls = []
    model.features.register_forward_hook(lambda *_: calls.append(1))
    score(model, images(3), draws=1000)
    assert len(calls) == 2  # once for all draws, once for the record of what the model itself says


def test_experiments_build_models_with_dropout():
    assert create("mc-dropout").model_options() == {"dropout": "head"}
    blocks = create("mc-dropout", {"placement": "blocks", "rate": 0.1})
    assert blocks.model_options() == {"dropout": "blocks", "dropout_rate": 0.1}
    assert create("mc-dropout", {"placement": "given"}).model_options() == {}
    build("small-cnn", 3, 1, 0, blocks.model_options())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"draws": 0}, "draws must be at least 1"),
        ({"rate": 1.0}, "rate must be at least 0 and below 1"),
        ({"placement": "given", "rate": 0.5}, "the model's own"),
        ({"placement": "tail"}, "placement"),
        ({"measure": "std"}, "measure"),
    ],
)
def test_options_are_checked(options, said):
    with pytest.raises(InputError, match=said):
        create("mc-dropout", options)
    with pytest.raises(InputError, match=said):
        type(create("mc-dropout"))(**options)


def test_a_model_without_dropout_says_the_remedy():
    with pytest.raises(ModelError, match="dropout='head'"):
        score(build("small-cnn", 4, 1, 0).double(), images())


def spoil(_module, args, out):
    """Let predictions for bright images be NaN."""
    return torch.where(args[0][:, 0, :1, 0] > 50, torch.nan, out)


def test_predictions_that_are_not_finite_name_the_sample():
    model = net()
    model.register_forward_hook(spoil)
    x = images(3)
    x[1] = 99
    with pytest.raises(NonFiniteError, match="sample 1"):
        score(model, x)
