"""Small models and data for tests of influence, all made by a seed."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from steepest.core.seeds import generator
from steepest.influence import Curvature, Examples
from steepest.influence.vectors import Vector, flatten
from steepest.tasks import Classification, Segmentation

CLASSES = 3
TASK = Classification(CLASSES)


def draw(*shape: int, seed: int = 0, purpose: str = "data") -> Tensor:
    return torch.randn(*shape, generator=generator(seed, purpose), dtype=torch.float64)


def seeded(model: nn.Module, seed: int = 0, scale: float = 0.5) -> nn.Module:
    """Give a model weights by a seed, and its normalisation statistics of its own."""
    with torch.no_grad():
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if not tensor.is_floating_point():
                continue
            drawn = torch.randn(tensor.shape, generator=generator(seed, name), dtype=torch.float64)
            values = 0.5 + drawn.abs() if "var" in name else scale * drawn
            tensor.copy_(values)
    return model.double().eval()


def mlp(hidden: int = 5, inputs: int = 4) -> nn.Module:
    return seeded(nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, CLASSES)))


def conv_net() -> nn.Module:
    return seeded(
        nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1, bias=False),
            nn.BatchNorm2d(4),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Conv2d(4, 4, 3, padding="same", groups=2),
            nn.SiLU(),
            nn.Flatten(),
            nn.Linear(4 * 9, CLASSES),
        )
    )


def segmenter() -> nn.Module:
    return seeded(nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.Tanh(), nn.Conv2d(4, CLASSES, 1)))


SEGMENTATION = Segmentation(CLASSES)


def labels(count: int, seed: int = 0, classes: int = CLASSES) -> Tensor:
    return torch.randint(classes, (count,), generator=generator(seed, "labels"))


def rows(count: int = 20, inputs: int = 4, seed: int = 0) -> Examples:
    return Examples(draw(count, inputs, seed=seed), labels(count, seed))


def images(count: int = 7, seed: int = 0) -> Examples:
    return Examples(draw(count, 2, 6, 6, seed=seed), labels(count, seed))


def maps(count: int = 3, seed: int = 0) -> Examples:
    targets = torch.randint(CLASSES, (count, 4, 4), generator=generator(seed, "maps"))
    targets[0, 0] = 255
    return Examples(draw(count, 2, 4, 4, seed=seed), targets.byte())


def random_vector(curvature: Curvature, seed: int = 0) -> Vector:
    return {
        name: draw(*p.shape, seed=seed, purpose=name).to(p)
        for name, p in curvature.parameters.items()
    }


def close(a: Vector, b: Vector, rtol: float = 1e-9) -> bool:
    difference = flatten({n: a[n].double() - b[n].double() for n in a})
    return bool(a.keys() == b.keys() and difference.norm() <= rtol * flatten(b).double().norm())


class Swish(torch.autograd.Function):
    """A function of the old kind, without a forward derivative."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, slope):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return slope * (s + x * s * (1 - s))


class OldSwish(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return Swish.apply(x)


def pair_of_nets() -> tuple[nn.Module, nn.Module]:
    """Return a net without forward derivatives, and an equal one with them."""
    old = nn.Sequential(nn.Linear(4, 5), OldSwish(), nn.Linear(5, CLASSES))
    new = nn.Sequential(nn.Linear(4, 5), nn.SiLU(), nn.Linear(5, CLASSES))
    return seeded(old), seeded(new)


CASES = {
    "mlp": (mlp, rows, TASK),
    "convolutions": (conv_net, images, TASK),
    "segmentation": (segmenter, maps, SEGMENTATION),
}
"""A model, examples for it and their task, by what it is made of."""
