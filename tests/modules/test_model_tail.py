"""A head is repeated without the backbone only where that gives the same."""

from __future__ import annotations

import pytest
import torch
from thinned import all_draws, images, settled
from torch import nn
from torch.nn.utils import parametrizations

from steepest.core.seeds import generator
from steepest.models import build
from steepest.models.dropout import Rates
from steepest.models.small_cnn import SmallCnn
from steepest.modules.draws import Watch, dropout_draws


class Slow(nn.Module):
    """Hides from the watch that layers follow upon each other."""

    def __init__(self, model):
        super().__init__()
        self.__dict__["of"] = model
        for name, child in model.named_children():
            setattr(self, name, child)

    def forward(self, x):
        return self.of(x) * 1.0


def counting_backbone(model, name):
    calls = []
    model.get_submodule(name).register_forward_hook(lambda *_: calls.append(1))
    return calls


def built(name):
    return build(name, 3, 1, 0, {"dropout": "head"})


HEADS = {
    "small-cnn": (lambda: built("small-cnn"), (3, 1, 8, 8), "features"),
    "drn-d-22": (lambda: built("drn-d-22"), (2, 1, 13, 18), "base.8"),
    "sequence": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.Dropout(0.5, inplace=True),
            nn.ReLU(inplace=True),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            parametrizations.weight_norm(nn.Linear(16, 8)),
            nn.Dropout(0.2),
            nn.Linear(8, 3),
        ),
        (3, 1, 6, 6),
        "0",
    ),
}


@pytest.mark.parametrize("name", HEADS)
def test_a_head_is_repeated_without_the_backbone_and_gives_the_same(name):
    make, shape, backbone = HEADS[name]
    torch.manual_seed(0)
    model = settled(make())
    x = images(*shape)
    slow = all_draws(Slow(model).eval(), x, 5)
    calls = counting_backbone(model, backbone)
    torch.testing.assert_close(all_draws(model, x, 5), slow, rtol=1e-12, atol=1e-13)
    assert len(calls) == 1
    calls.clear()
    all_draws(Slow(model).eval(), x, 5)
    assert len(calls) == 5


class Skip(nn.Module):
    """What the dropout reads is used again behind it, in one of several ways."""

    def __init__(self, how):
        super().__init__()
        self.how = how
        self.body, self.drop, self.fc = nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 4)

    def forward(self, x):
        h = self.body(x)
        out = self.fc(self.drop(h))
        if self.how == "sum":
            return out + h
        if self.how == "in place":
            return out.add_(h)
        if self.how == "changed":
            h.zero_()
            return out
        return self.fc(torch.cat([out[:, :2], h[:, 2:]], dim=1))


@pytest.mark.parametrize("how", ["sum", "in place", "changed", "cat"])
def test_what_does_not_follow_in_a_row_is_run_as_a_whole(how):
    torch.manual_seed(0)
    model = Skip(how).double().eval()
    x = images(3, 4)
    calls = counting_backbone(model, "body")
    found = all_draws(model, x, 3)
    assert len(calls) == 3
    with torch.no_grad():
        h = model.body(x)
        for draw, logits in enumerate(found):
            keep = torch.rand(4, generator=generator(5, "dropout", "drop", draw)) >= 0.5
            out = model.fc(h * keep * 2)
            wanted = {
                "sum": out + h,
                "in place": out + h,
                "changed": out,
                "cat": model.fc(torch.cat([out[:, :2], h[:, 2:]], dim=1)),
            }
            torch.testing.assert_close(logits, wanted[how])


class Mixed(nn.Module):
    """Computes its head in another precision than layers called by themselves would."""

    def __init__(self):
        super().__init__()
        self.body, self.drop, self.fc = nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 3)

    def forward(self, x):
        h = self.body(x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.fc(self.drop(h))


def test_a_precision_that_layers_alone_would_not_have_is_kept():
    torch.manual_seed(0)
    found = list(dropout_draws(Mixed().eval(), torch.ones(2, 4), 3, 0))
    assert [logits.dtype for logits in found] == [torch.bfloat16] * 3


def test_a_watch_that_saw_no_dropout_knows_no_tail():
    assert Watch(()).tail(torch.ones(2, 3)) is None


def test_the_draws_of_a_subclass_are_found_too():
    class Wrapped(SmallCnn):
        def forward(self, x):
            return {"logits": super().forward(x)}

    model = settled(build("small-cnn", 3, 1, 0, {"dropout": "head"}))
    wrapped = Wrapped(3, 1, dropout=Rates(head=0.5))
    wrapped.load_state_dict(model.state_dict())
    x = images(2, 1, 8, 8)
    torch.testing.assert_close(all_draws(wrapped.double().eval(), x), all_draws(model, x))
