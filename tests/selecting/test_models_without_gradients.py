"""Models from which no gradient or no value can be had are named, and not scored by chance."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import steepest
from steepest.errors import ModelError
from steepest.strategies import Support

POOL = torch.randn(12, 4, generator=torch.Generator().manual_seed(0))


class Cut(nn.Module):
    def __init__(self, cut):
        super().__init__()
        self.layer, self.other, self.cut = nn.Linear(4, 3), nn.Linear(4, 3), cut

    def forward(self, x):
        return self.cut(self.layer, x)


def make_under_inference_mode():
    with torch.inference_mode():
        return nn.Linear(4, 3)


def make_with_another_part_trainable():
    model = Cut(lambda layer, x: layer(x))
    model.layer.requires_grad_(requires_grad=False)
    return model


HOPELESS = {
    "no_grad": (lambda: Cut(torch.no_grad()(lambda f, x: f(x))), "no trainable parameter takes"),
    "detach": (lambda: Cut(lambda f, x: f(x).detach()), "no trainable parameter takes part"),
    "whole numbers": (lambda: Cut(lambda f, x: f(x).long()), "no trainable parameter takes part"),
    "another part": (make_with_another_part_trainable, "set requires_grad on what makes"),
    "inference mode": (make_under_inference_mode, "'weight' was made under torch.inference_mode"),
    "meta": (lambda: nn.Linear(4, 3, device="meta"), "no values, being on the device 'meta'"),
}


@pytest.mark.parametrize("strategy", ["entropy-gradnorm", "egl"])
@pytest.mark.parametrize("case", HOPELESS)
def test_a_model_without_gradients_is_refused_with_the_remedy(case, strategy):
    make, message = HOPELESS[case]
    with pytest.raises(ModelError, match=message) as caught:
        steepest.select(make(), POOL, 2, strategy, progress=False)
    assert "\n" not in str(caught.value)


def test_without_gradients_predictions_are_asked_all_the_same():
    model = Cut(torch.no_grad()(lambda f, x: f(x)))
    assert len(steepest.select(model, POOL, 2, "margin", progress=False)) == 2


def test_an_exported_program_is_refused_in_one_line():
    class Exported(nn.Linear):
        def eval(self):
            raise NotImplementedError("Calling eval() is not supported yet.")

    with pytest.raises(ModelError, match="that it was made from"):
        steepest.select(Exported(4, 3), POOL, 2, "margin", progress=False)


def test_inference_mode_around_the_call_changes_nothing():
    model = nn.Linear(4, 3)
    support = Support(targets={i: i % 3 for i in range(6)})
    expected = steepest.select(model, POOL, 2, "isal", support=support, progress=False)
    with torch.inference_mode():
        found = steepest.select(model, POOL * 1, 2, "isal", support=support, progress=False)
    assert found == expected
