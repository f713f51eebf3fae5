"""Norms of several losses in one pass."""

from __future__ import annotations

import pytest
import torch
from analysis_nets import CLASSES, TASK, net, part, points
from torch import nn

from steepest import gradient_norms
from steepest.errors import InputError, NonFiniteError, UnknownNameError
from steepest.influence import Examples
from steepest.paper.analyses import sample_norms

LOSSES = ("true-label", "entropy", "expected")


def test_norms_are_those_of_the_public_function():
    model, some = net(), points(9)
    found = sample_norms(model, TASK, some, LOSSES)
    for norm in ("l2", "tensor-sum"):
        entropy = gradient_norms(model, some.inputs, "entropy", norm=norm)
        true = gradient_norms(model, some.inputs, "cross-entropy", targets=some.targets, norm=norm)
        expected = gradient_norms(model, some.inputs, "expected", norm=norm)
        torch.testing.assert_close(torch.from_numpy(found["entropy", norm]), entropy)
        torch.testing.assert_close(torch.from_numpy(found["expected", norm]), expected)
        torch.testing.assert_close(torch.from_numpy(found["true-label", norm]), true)


def test_one_norm_that_is_not_finite_is_refused():
    model, some = nn.Linear(4, CLASSES).double(), points(5)
    some.inputs[3] = 1e200  # Its square is infinite.
    some.targets[3] = model(some.inputs[3]).argmin()
    with pytest.raises(NonFiniteError, match="the loss 'true-label' is NaN or infinite"):
        sample_norms(model, TASK, some, ["true-label"])


def test_norms_do_not_depend_on_the_batch_size():
    model, some = net(), points(11)
    whole, single = (sample_norms(model, TASK, some, LOSSES, batch_size=b) for b in (11, 1))
    for key, values in whole.items():
        torch.testing.assert_close(torch.from_numpy(values), torch.from_numpy(single[key]))


def test_the_model_is_left_as_found():
    model = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, CLASSES)).double()
    model.train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    sample_norms(model, TASK, points(6), LOSSES)
    assert model.training
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(p.grad is None and p.requires_grad for p in model.parameters())


def test_norms_without_labels_need_no_targets_and_true_ones_do():
    model, some = net(), Examples(points(5).inputs)
    assert set(sample_norms(model, TASK, some, ["entropy"], ["l2"])) == {("entropy", "l2")}
    with pytest.raises(InputError, match="needs targets"):
        sample_norms(model, TASK, some, ["true-label"])


def test_unknown_names_and_nothing_at_all_are_refused():
    model, some = net(), part(points(5), range(2))
    with pytest.raises(UnknownNameError, match="norm"):
        sample_norms(model, TASK, some, ["entropy"], ["per-tensor"])
    with pytest.raises(UnknownNameError, match="entropy"):
        sample_norms(model, TASK, some, ["entropi"])
    with pytest.raises(InputError, match="at least one"):
        sample_norms(model, TASK, some, [])
