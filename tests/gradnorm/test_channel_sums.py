"""Scales and shifts of channels."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from steepest.gradnorm import GradientNorms, reference_norms


def filled(layer: nn.Module) -> nn.Module:
    """Draw weights and statistics, which are ones and zeros at first."""
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_()
        if getattr(layer, "running_mean", None) is not None:
            layer.running_mean.normal_()
            layer.running_var.uniform_(0.5, 2)
    return layer


LAYERS = {
    "batch": lambda: nn.BatchNorm2d(8),
    "batch, large eps": lambda: nn.BatchNorm2d(8, eps=0.5),
    "one group": lambda: nn.GroupNorm(1, 8),
    "four groups": lambda: nn.GroupNorm(4, 8, eps=1e-2),
    "as many groups as channels": lambda: nn.GroupNorm(8, 8),
    "instance": lambda: nn.InstanceNorm2d(8, affine=True),
    "instance, running": lambda: nn.InstanceNorm2d(8, affine=True, track_running_stats=True),
}


class Normalised(nn.Module):
    """Frames [N, F, 3, H, W], each convolved and normalised twice by one layer."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 8, 3), filled(layer), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.norm(self.conv(x.flatten(0, 1))).tanh()).tanh()
        return self.head(y.unflatten(0, x.shape[:2]).mean((1, 3, 4)))


@pytest.mark.parametrize("frames", [1, 3])
@pytest.mark.parametrize("name", LAYERS)
def test_layers_on_frames_called_twice_are_exact(name, frames):
    torch.manual_seed(0)
    model = Normalised(LAYERS[name]()).double().eval()
    x = torch.randn(5, frames, 3, 7, 6, dtype=torch.float64)
    found = GradientNorms(model, norm="per-tensor")(x)
    torch.testing.assert_close(found, reference_norms(model, x, norm="per-tensor"))


@pytest.mark.parametrize("name", ["batch", "four groups"])
def test_a_mean_far_off_zero_costs_no_digits(name):
    torch.manual_seed(0)
    layer = filled(LAYERS[name]())
    if name == "batch":
        layer.running_mean += 300
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), layer, nn.Tanh(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(8, 3),
    ).eval()  # fmt: skip
    nn.init.constant_(model[0].bias, 300.0)
    x = torch.randn(5, 3, 20, 20)
    found = GradientNorms(model, norm="per-tensor")(x)[:, 2:4]
    exact = reference_norms(copy.deepcopy(model).double(), x.double(), norm="per-tensor")[:, 2:4]
    torch.testing.assert_close(found.double(), exact, rtol=1e-3, atol=0)


def test_a_gradient_that_is_not_contiguous_is_summed_up_all_the_same():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), filled(nn.BatchNorm2d(8)), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(8, 3),
    ).double().eval()  # fmt: skip
    x = torch.randn(5, 3, 8, 8, dtype=torch.float64)
    found = GradientNorms(model, norm="per-tensor")(x)
    torch.testing.assert_close(found, reference_norms(model, x, norm="per-tensor"))


def amid_others(values: Tensor, step: int = 1) -> Tensor:
    """Return a copy of numbers [C] in a place where whatever lies beside them is 1e6."""
    place = torch.full((100 * step + len(values) * step,), 1e6, dtype=values.dtype)
    view = place[: len(values) * step : step]
    return view.copy_(values)


class PooledGate(nn.Module):
    """Images weighted by one channel of a single pixel, as pyramid heads and gates do."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.squeeze = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 1, 1)
        self.norm, self.head = filled(nn.BatchNorm2d(1)), nn.Linear(4, 3)
        self.norm.running_mean = amid_others(self.norm.running_mean)
        self.norm.running_var = amid_others(self.norm.running_var)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x).mean((2, 3), keepdim=True)
        return self.head((y * self.norm(self.squeeze(y)).sigmoid()).flatten(1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_channel_on_maps_of_one_pixel_is_exact(dtype):
    torch.manual_seed(0)
    model, x = PooledGate().to(dtype).eval(), torch.randn(64, 3, 5, 5, dtype=dtype)
    model.norm.running_mean = amid_others(model.norm.running_mean)
    model.norm.running_var = amid_others(model.norm.running_var)
    found = GradientNorms(model, norm="per-tensor")(x)
    torch.testing.assert_close(found, reference_norms(model, x, norm="per-tensor"))
