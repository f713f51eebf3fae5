"""One step of training, and what it says when it cannot be made faster."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from steepest.errors import SlowPathWarning
from steepest.tasks import Classification
from steepest.tasks.segmentation import Segmentation
from steepest.training.fast.step import Step, form_of, warn_of_slower_steps


def test_a_step_is_one_of_the_optimiser_and_sums_the_losses():
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    weight = model[1].weight.detach().clone()
    step = Step(model, Classification(2), torch.optim.SGD(model.parameters(), 0.5), amp=True)
    x, y = (
        torch.randn(3, 1, 2, 2, generator=torch.Generator().manual_seed(0)),
        torch.tensor([0, 1, 1]),
    )
    want = nn.functional.cross_entropy(model(x), y)
    (gradient,) = torch.autograd.grad(want, [model[1].weight])
    step(x, y)
    torch.testing.assert_close(model[1].weight.detach(), weight - 0.5 * gradient)
    assert step.take_total() == pytest.approx(3 * float(want.detach()), rel=1e-5)
    assert step.take_total() == 0


def test_label_maps_are_learnt_from():
    model = nn.Conv2d(1, 3, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    step = Step(model, Segmentation(3), optimizer, amp=False)
    x = torch.randn(2, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    y = torch.randint(3, (2, 4, 4), generator=torch.Generator().manual_seed(1)).to(torch.uint8)
    totals = []
    for _ in range(5):
        step(x, y)
        totals.append(step.take_total())
    assert totals == sorted(totals, reverse=True)


def test_batches_are_alike_if_one_recording_does_for_both():
    x, y = torch.zeros(4, 3, 2, 2), torch.zeros(4, dtype=torch.long)
    assert form_of(x, y) == form_of(x + 1, y + 1)
    assert form_of(x, y) != form_of(x[:3], y[:3])
    assert form_of(x, y) != form_of(x.contiguous(memory_format=torch.channels_last), y)
    assert form_of(x, y) != form_of(x, y.int())


def test_slower_steps_are_told_of_in_one_line():
    with pytest.warns(SlowPathWarning, match="could not be compiled, .*: ValueError: no") as told:
        warn_of_slower_steps("compiled", ValueError("no such thing\nmore words"))
    assert "\n" not in str(told[0].message)
