"""Labels of any kind of whole number, and what is said where labels or inputs do not fit."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import steepest
from steepest.errors import InputError, NonFiniteError
from steepest.gradnorm import GradientNorms, reference_norms
from steepest.tasks import Segmentation

LABELS = [0, 1, 2, 1, 0]


class Masked(nn.Module):
    """Weighs positions by a softmax with a mask, given in floats or bools."""

    def __init__(self) -> None:
        super().__init__()
        self.weigh, self.head = nn.Linear(4, 1), nn.Linear(4, 3)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        weights = self.weigh(x)[..., 0]
        shown = (
            weights.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else weights + mask
        )
        return self.head((shown.softmax(1)[..., None] * x).sum(1))


def samples(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def linear() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(4, 3).double().eval()


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8, torch.int64])
@pytest.mark.parametrize("compiled", [False, True])
def test_labels_may_be_whole_numbers_of_any_kind(monkeypatch, dtype, compiled):
    monkeypatch.setattr(torch, "compile", lambda program, **_options: program)
    model, x, labels = linear(), samples(5, 4), torch.tensor(LABELS)
    truth = reference_norms(model, x, "cross-entropy", targets=labels)
    norms = GradientNorms(model, "cross-entropy", compiled=compiled)
    for _ in range(2):
        torch.testing.assert_close(norms(x, labels.to(dtype)), truth)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_dense_labels_may_be_too(dtype):
    torch.manual_seed(0)
    model, x = nn.Conv1d(2, 3, 1).double().eval(), samples(4, 2, 5)
    labels = torch.arange(20).reshape(4, 5) % 3
    truth = reference_norms(model, x, "cross-entropy", targets=labels)
    found = steepest.gradient_norms(model, x, "cross-entropy", targets=labels.to(dtype))
    torch.testing.assert_close(found, truth)
    labels[0, 1:] = 255  # What is not known takes the loss of the task.
    with pytest.raises(InputError, match=r"255 .* loss=Segmentation\(3\)\.training_loss"):
        steepest.gradient_norms(model, x, "cross-entropy", targets=labels)
    found = steepest.gradient_norms(model, x, Segmentation(3).training_loss, targets=labels)
    alone = steepest.gradient_norms(model, x[:, :, :1], "cross-entropy", targets=labels[:, :1])
    torch.testing.assert_close(found[0], alone[0])


@pytest.mark.parametrize("shape", [(5, 1), (5, 3), (5, 2, 2)])
def test_labels_of_another_shape_are_refused_in_one_line(shape):
    labels = torch.zeros(shape, dtype=torch.long)
    with pytest.raises(
        InputError, match=r"targets have shape \[N, .*logits \[N, 3\] need \[N\]"
    ) as caught:
        steepest.gradient_norms(linear(), samples(5, 4), "cross-entropy", targets=labels)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("by_name", [False, True])
def test_a_mask_of_infinities_is_named_and_one_of_bools_is_measured(by_name):
    torch.manual_seed(0)
    model, x = Masked().double().eval(), samples(5, 6, 4)
    shown = torch.arange(6) < torch.tensor([6, 3, 4, 1, 6])[:, None]
    floats = torch.zeros(5, 6).double().masked_fill(~shown, -torch.inf)

    def inputs(mask):
        return {"x": x, "mask": mask} if by_name else (x, mask)

    name = "'mask'" if by_name else "1"
    message = f"the input {name} holds infinity: sample 1 .* make it one of bools"
    with pytest.raises(NonFiniteError, match=message) as caught:
        steepest.gradient_norms(model, inputs(floats))
    assert "\n" not in str(caught.value)
    found = steepest.gradient_norms(model, inputs(shown))
    torch.testing.assert_close(found, reference_norms(model, inputs(floats)))


@pytest.mark.parametrize("bad", [torch.inf, torch.nan])
def test_other_values_that_are_not_finite_are_not_taken_for_a_mask(bad):
    x = samples(5, 4)
    x[2, 1], x[3, 1] = bad, -torch.inf
    with pytest.raises(NonFiniteError, match=r"the inputs hold .*: sample 2 holds") as caught:
        steepest.gradient_norms(linear(), x)
    assert "mask" not in str(caught.value)


class RuledOut(nn.Module):
    """Rules out one of four classes, or has three from the start."""

    def __init__(self, *, masked: bool) -> None:
        super().__init__()
        self.head, self.masked = nn.Linear(4, 4), masked

    def forward(self, x: Tensor) -> Tensor:
        logits = self.head(x)
        ruled_out = torch.tensor([False, False, True, False])
        return logits.masked_fill(ruled_out, -torch.inf) if self.masked else logits[:, ~ruled_out]


@pytest.mark.parametrize("loss", ["entropy", "expected"])
def test_a_class_that_is_ruled_out_is_as_one_that_is_not_there(loss):
    masked, without = RuledOut(masked=True).double(), RuledOut(masked=False).double()
    without.load_state_dict(masked.state_dict())
    x = samples(6, 4).double()
    found = steepest.gradient_norms(masked.eval(), x, loss)
    torch.testing.assert_close(found, steepest.gradient_norms(without.eval(), x, loss))
    chosen = steepest.select(masked, x, 2, "entropy", progress=False)
    assert chosen.ids == steepest.select(without, x, 2, "entropy", progress=False).ids
