"""Models in half precision: sure samples keep their gradients, and large ones have a number."""

from __future__ import annotations

import copy

import pytest
import torch
from model_state import same, snapshot
from torch import Tensor, nn

import steepest
from steepest.gradnorm import GradientNorms, reference_norms
from steepest.gradnorm.backward.scaling import scales_of
from steepest.gradnorm.engine import Engine
from steepest.modules.losses import resolve

ROUNDING = 4e-3


class Sure(nn.Module):
    """A net on small whole numbers, whose logits are the same in any precision."""

    def __init__(self, gain: int) -> None:
        super().__init__()
        random = torch.Generator().manual_seed(0)
        self.body, self.head = nn.Linear(6, 8), nn.Linear(8, 4)
        with torch.no_grad():
            for p in self.parameters():
                p.copy_(torch.randint(-2, 3, p.shape, generator=random))
            self.head.weight.mul_(gain)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x).relu())


class Cube(torch.autograd.Function):
    """Cannot be watched."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x * weight

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        return g * weight, (g * x).sum(0)


class Unwatched(Sure):
    def __init__(self, gain: int) -> None:
        super().__init__(gain)
        self.scale = nn.Parameter(torch.ones(8))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(Cube.apply(self.body(x).relu(), self.scale))


def make(kind=Sure, gain: int = 2) -> tuple[nn.Module, nn.Module, Tensor]:
    """Return a model, the same in half precision, and samples."""
    model = kind(gain).eval()
    x = torch.randint(-2, 3, (24, 6), generator=torch.Generator().manual_seed(1))
    return model.double(), copy.deepcopy(model).half(), x


@pytest.mark.parametrize("kind", [Sure, Unwatched])
@pytest.mark.parametrize("loss", ["entropy", "expected", "pseudo-label"])
def test_the_gradients_of_sure_samples_do_not_vanish(kind, loss):
    exact, half, x = make(kind)
    truth = reference_norms(exact, x.double(), loss, norm="per-tensor")
    found = steepest.gradient_norms(half, x.half(), loss, norm="per-tensor")
    assert 0 < truth.sum(1).min() < 1e-12
    torch.testing.assert_close(found.double(), truth, rtol=ROUNDING, atol=0)


def test_norms_beyond_what_half_precision_holds_have_a_number():
    def steep(outputs):
        return 1e4 * outputs.double().square().sum(1)

    exact, half, x = make()
    truth = reference_norms(exact, x.double(), steep)
    assert truth.max() > 1e7
    found = steepest.gradient_norms(half, x.half(), steep)
    torch.testing.assert_close(found.double(), truth, rtol=ROUNDING, atol=0)


def test_a_loss_that_is_itself_in_half_precision_is_not_scaled_beyond_it():
    def faint(outputs):
        return outputs.sum(1) * 2.0**-20

    exact, half, x = make()
    truth = reference_norms(exact, x.double(), faint)
    found = steepest.gradient_norms(half, x.half(), faint)
    torch.testing.assert_close(found.double(), truth, rtol=0.05, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_results_are_given_in_single_precision_and_keep_samples_apart(dtype):
    torch.manual_seed(0)
    model = nn.Linear(8, 4).to(dtype).eval()
    x = torch.randn(24, 8).to(dtype)
    for found in (steepest.gradient_norms(model, x), reference_norms(model, x)):
        assert found.dtype == torch.float32
        assert len(found.unique()) == len(x)


def test_the_reference_keeps_the_gradients_of_sure_samples_too():
    exact, half, x = make()
    truth = reference_norms(exact, x.double())
    found = reference_norms(half, x.half())
    torch.testing.assert_close(found.double(), truth, rtol=ROUNDING, atol=0)


def test_sure_samples_pass_their_verification_and_stay_on_the_quick_way():
    _, half, x = make()
    norms = GradientNorms(half, verify=len(x))
    norms(x.half())
    assert norms.engine.slow_names() == []


def test_several_losses_of_sure_samples_are_scaled_each_for_itself():
    exact, half, x = make()

    def both(outputs, rows):
        return [
            *resolve("entropy", None, len(x))(outputs, rows),
            *resolve("pseudo-label", None, len(x))(outputs, rows),
        ]

    _, tables = Engine(half).squared_norms(x.half(), both)
    _, truths = Engine(exact).squared_norms(x.double(), both)
    for table, truth in zip(tables, truths, strict=True):
        torch.testing.assert_close(table.sqrt(), truth.sqrt(), rtol=ROUNDING, atol=0)


def test_hooks_on_parameters_see_the_gradient_as_it_is():
    _, half, x = make()
    seen = []
    half.head.bias.register_hook(lambda g: seen.append(g.abs().max().item()))
    steepest.gradient_norms(half, x[:1].half(), lambda z: 8 * z.double()[:, 0])
    assert seen
    assert set(seen) == {8.0}


def test_the_scale_of_a_gradient_is_its_size_over_the_whole_range():
    logits = torch.zeros(9, 3, dtype=torch.float16, requires_grad=True)
    sizes = torch.exp2(torch.tensor([-115.0, -90, -60, -40, -24, 0, 10, 16, 40]).double())
    values = (logits.double() * sizes[:, None]).sum(1)
    scales = scales_of(values, logits)
    assert ((scales * sizes) >= 0.5).all()
    assert ((scales * sizes) <= 2).all()


def test_a_sample_without_a_gradient_has_the_norm_zero():
    _, half, x = make()
    found = steepest.gradient_norms(half, x.half(), lambda z: z.double().sum(1) * 0)
    assert (found == 0).all()


def test_the_model_in_half_precision_is_left_as_found():
    _, half, x = make()
    before = snapshot(half)
    steepest.gradient_norms(half, x.half())
    assert same(snapshot(half), before)
