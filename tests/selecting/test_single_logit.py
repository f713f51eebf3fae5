"""A model that says yes or no by one logit is told what to return instead."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import steepest
from steepest.errors import InputError, ModelError
from steepest.strategies import Support
from steepest.tasks import Classification, MultiLabel, Segmentation

pytestmark = pytest.mark.filterwarnings("ignore::steepest.errors.RegimeWarning")

POOL = torch.randn(12, 4, generator=torch.Generator().manual_seed(0))
TARGETS = {i: i % 2 for i in range(4)}
FLAT = r"one logit for each sample, and yes or no take two: .*torch\.cat\(\[torch\.zeros_like\(z\)"


class Wrapped(nn.Module):
    """A linear layer, and what is made of its logits."""

    def __init__(self, change, outputs=1):
        super().__init__()
        torch.manual_seed(3)
        self.layer = nn.Linear(4, outputs)
        self.change = change

    def forward(self, x):
        return self.change(self.layer(x))


def plain(z):
    return z


def choose(model, strategy="entropy", pool=POOL, **more):
    return steepest.select(model, pool, 2, strategy, progress=False, **more)


@pytest.mark.parametrize(
    "strategy", ["entropy", "margin", "entropy-gradnorm", "egl", "core-set", "badge", "isal"]
)
def test_every_way_to_choose_names_the_two_logits(strategy):
    with pytest.raises(ModelError, match=FLAT):
        choose(Wrapped(plain), strategy, support=Support(targets=TARGETS))


def test_scores_name_them_too():
    with pytest.raises(ModelError, match=FLAT):
        steepest.score(Wrapped(plain), POOL, "margin", progress=False)


@pytest.mark.parametrize(
    "carry", [lambda z: {"logits": z}, lambda z: SimpleNamespace(logits=z)], ids=["dict", "object"]
)
def test_logits_that_are_carried_are_found(carry):
    with pytest.raises(ModelError, match=FLAT):
        choose(Wrapped(carry))


def test_numbers_without_a_dimension_of_classes_are_stacked():
    with pytest.raises(ModelError, match=r"sample, and .*torch\.stack\(\[torch\.zeros_like"):
        choose(Wrapped(lambda z: z[:, 0]))


def test_maps_of_one_logit_are_told_of_pixels():
    maps = torch.randn(5, 2, 3, 3)
    with pytest.raises(ModelError, match="one logit for each pixel, and yes or no take two"):
        choose(nn.Conv2d(2, 1, 1), pool=maps, task=Segmentation(2))


def test_the_remedy_is_what_the_logit_meant():
    def pair(z):
        return torch.cat([torch.zeros_like(z), z], 1)

    model = Wrapped(pair)
    found = steepest.score(model, POOL, "entropy", progress=False).values
    p = torch.sigmoid(model.layer(POOL)).double()[:, 0].detach()
    expected = -(p * p.log() + (1 - p) * (1 - p).log())
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_the_message_fits_the_task():
    with pytest.raises(ModelError, match="the task has 5 classes: return a logit for each of them"):
        choose(Wrapped(plain), task=Classification(5))
    with pytest.raises(ModelError, match="sigmoid of z, and take classification with 2 classes"):
        choose(Wrapped(plain), task=MultiLabel(1))
    with pytest.raises(InputError, match="at least 2: yes or no are two, with a logit each"):
        Classification(1)


@pytest.mark.parametrize(
    "carry",
    [
        lambda z: [{"boxes": z}] * len(z),
        lambda z: {"logits": z, "pred_boxes": z},
        lambda z: SimpleNamespace(logits=z, pred_boxes=z),
    ],
)
def test_detectors_are_refused_by_their_boxes(carry):
    with pytest.raises(ModelError, match="boxes: object detection is not supported"):
        choose(Wrapped(carry, outputs=3))


class TokenClassifierOutput(SimpleNamespace):
    """What Hugging Face calls logits with classes last."""


@pytest.mark.parametrize("strategy", ["margin", "entropy-gradnorm"])
def test_logits_of_tokens_are_told_to_be_transposed(strategy):
    def by_token(z):
        return TokenClassifierOutput(logits=z[:, None].expand(-1, 7, -1))

    with pytest.raises(ModelError, match=r"\[12, 7, 3\], classes last, .*transpose\(1, 2\)"):
        choose(Wrapped(by_token, outputs=3), strategy)


def test_a_regression_is_told_that_it_has_no_classes():
    with pytest.raises(ModelError, match=r"\(regression\) has no classes, and is not supported"):
        choose(Wrapped(plain))


def test_other_misfits_keep_their_own_words():
    with pytest.raises(ModelError, match="3 outputs, but the task has 5 classes"):
        choose(Wrapped(plain, outputs=3), task=Classification(5))
    with pytest.raises(ModelError, match="carries 'logits'"):
        choose(Wrapped(lambda z: [z]))
    with pytest.raises(ModelError, match="failed on inputs"):
        choose(Wrapped(plain), pool=torch.randn(5, 9))
