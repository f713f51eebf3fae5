"""Every route to a convolution's norms gives what its weight gradient gives, sample by sample."""

from __future__ import annotations

import pytest
import torch
from largest import Largest
from torch import Tensor, nn
from torch.nn import functional as F

from steepest.gradnorm import GradientNorms, explain, reference_norms
from steepest.gradnorm.measure import routes
from steepest.gradnorm.measure.convolved import Convolved
from steepest.gradnorm.measure.patches import Geometry
from steepest.gradnorm.measure.routes import Routes

CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}

CASES = {
    # channels, outputs, groups, kernel, stride, dilation, padding, size
    "depthwise": (5, 5, 5, (3, 3), (1, 1), (1, 1), (1, 1), (6, 7)),
    "depthwise with a stride": (8, 8, 8, (5, 3), (2, 2), (1, 1), (2, 0), (9, 8)),
    "depthwise with holes": (3, 3, 3, (3, 3), (1, 2), (2, 1), (2, 1), (8, 8)),
    "depthwise that leaves a rim": (4, 4, 4, (3, 3), (3, 3), (1, 1), (0, 0), (8, 7)),
    "two kernels a channel": (4, 8, 4, (3, 3), (1, 1), (1, 1), (1, 1), (5, 5)),
    "eight to sixteen": (8, 16, 1, (3, 3), (1, 1), (1, 1), (1, 1), (5, 6)),
    "groups of eight": (16, 16, 2, (3, 2), (2, 1), (1, 2), (1, 0), (7, 6)),
    "odd channels": (3, 5, 1, (3, 3), (2, 2), (1, 1), (1, 1), (7, 7)),
    "one channel": (1, 4, 1, (3, 3), (1, 1), (1, 1), (1, 0), (5, 7)),
    "long rows with holes": (8, 8, 1, (2, 3), (2, 1), (1, 2), (0, 1), (4, 19)),
    "one tap": (8, 8, 1, (1, 1), (1, 1), (1, 1), (0, 0), (4, 4)),
    "one tap with a stride": (3, 5, 1, (1,), (2,), (1,), (0,), (9,)),
    "in one dimension": (6, 6, 6, (4,), (1,), (3,), (2,), (15,)),
    "in three dimensions": (8, 8, 8, (2, 3, 1), (1, 2, 1), (1, 1, 1), (0, 1, 0), (4, 5, 3)),
}


def draw(*shape: int, seed: int, dtype: torch.dtype) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=random, dtype=torch.float64).to(dtype)


def make(name: str, *, frames: int = 1, dtype=torch.float64) -> tuple[Convolved, Tensor]:
    """Return a share of four samples, and their gradients [4, *shape] by autograd."""
    channels, outputs, groups, kernel, stride, dilation, padding, size = CASES[name]
    weight = torch.zeros(outputs, channels // groups, *kernel, dtype=torch.float64)
    weight.requires_grad_()
    x = draw(4, frames, channels, *size, seed=0, dtype=torch.float64)

    def run(some: Tensor) -> Tensor:
        return CONV[len(kernel)](some, weight, None, stride, padding, dilation, groups)

    g = draw(4, frames, *run(x[0]).shape[1:], seed=1, dtype=torch.float64)
    truth = [torch.autograd.grad(run(x[i]), weight, g[i])[0] for i in range(4)]
    around = tuple((p, p) for p in padding)
    geometry = Geometry(kernel, stride, dilation, around, groups)
    return Convolved(x.to(dtype), g.to(dtype), geometry, weight.shape), torch.stack(truth)


class Only(Routes):
    """Takes one route wherever there is a choice of it."""

    def __init__(self, wanted: str) -> None:
        super().__init__()
        self.wanted = wanted

    def pick(self, key, costs, run=None, scratch=None):
        return self.wanted if self.wanted in costs else super().pick(key, costs, run, scratch)


@pytest.mark.parametrize("frames", [1, 3])
@pytest.mark.parametrize("name", CASES)
def test_every_route_gives_the_norms_of_autograd(name, frames):
    share, truth = make(name, frames=frames)
    offered = share._costs(fused=False)
    assert {"patches", "vendor"} <= offered.keys()
    for route in offered:
        found = share.squares(Only(route))
        torch.testing.assert_close(found, truth.flatten(1).square().sum(1), msg=route)


@pytest.mark.parametrize(
    ("name", "fits"),
    [("depthwise", True), ("eight to sixteen", True), ("groups of eight", True),
     ("odd channels", False), ("two kernels a channel", False)],
)  # fmt: skip
def test_all_samples_go_into_one_call_where_it_is_made_for_their_channels(name, fits):
    share, _ = make(name)
    assert ("together" in share._costs(fused=False)) == fits


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rows", [slice(None), slice(1, 3), slice(3, None)])
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_built_in_the_order_of_the_weight(name, rows, dtype):
    share, truth = make(name, frames=2, dtype=dtype)
    torch.testing.assert_close(share.dense(rows), truth[rows].to(dtype))


@pytest.mark.parametrize("name", ["depthwise", "eight to sixteen", "odd channels"])
def test_gradients_are_built_for_as_many_samples_as_fit(name, monkeypatch):
    share, truth = make(name)
    allowed = 2 * max(share._scratch(route) for route in ("patches", "together"))
    monkeypatch.setattr(routes, "CHUNK_FLOATS", allowed)
    with Largest() as seen:
        built = share.dense(slice(None))
    torch.testing.assert_close(built, truth)
    assert seen.numbers <= max(allowed, truth.numel()), seen.operator


class Mobile(nn.Sequential):
    """A stem, a depthwise and a pointwise convolution, and a head."""

    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU6(inplace=True),
            nn.Conv2d(16, 16, 3, 2, 1, groups=16), nn.BatchNorm2d(16), nn.ReLU6(inplace=True),
            nn.Conv2d(16, 24, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 3),
        )  # fmt: skip


def test_depthwise_layers_are_measured_for_all_samples_at_once():
    torch.manual_seed(0)
    model, x = Mobile().eval(), torch.randn(6, 3, 64, 64)
    (layer,) = (found for found in explain(model, x).layers if "3.weight" in found.parameters)
    assert layer.route == "together"
    assert explain(model, x).slow == ()


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_net_of_depthwise_layers_is_exact_in_any_layout(layout, dtype):
    torch.manual_seed(0)
    model, x = Mobile().to(dtype).eval(), torch.randn(6, 3, 12, 12, dtype=dtype)
    model, x = model.to(memory_format=layout), x.contiguous(memory_format=layout)
    found = GradientNorms(model, norm="per-tensor")(x)
    truth = reference_norms(model.double(), x.double(), norm="per-tensor")
    torch.testing.assert_close(found.double(), truth, rtol=1e-5, atol=1e-7)
