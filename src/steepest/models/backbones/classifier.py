"""A pretrained net with a new linear head: a classifier for the images of a data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from steepest.core.keyword_options import convert_options
from steepest.core.seeds import seeded
from steepest.errors import InputError, ModelError
from steepest.models.backbones.base import Backbone
from steepest.models.backbones.find import find_backbone

PREFIX = "backbone:"
"""Before the name of a backbone where a model is named."""

_SMALLEST = 8
_GIVEN = ("self", "backbone", "classes", "channels", "mean", "std")


class BackboneClassifier(nn.Module):
    """Logits of a data set's images, which are brought to the form that a backbone expects.

    Images are resized as a whole, without cropping; one channel is repeated.

    Args:
        backbone: A net for images; its weights are this model's.
        classes: The number of classes.
        channels: Channels of the images, 1 or 3.
        mean: That the images were normalised with, on the 0..1 scale [C].
        std: Likewise [C].
        side: Of the images that the net sees, in pixels; 0 for the backbone's own.

    Raises:
        InputError: If it reads text, the images have other channels, or ``side`` is too small.
        ModelError: If the backbone prepares images by more than resizing and scaling.
    """

    head_layers: ClassVar[tuple[str, ...]] = ("head",)
    scale: Tensor
    shift: Tensor

    def __init__(
        self,
        backbone: Backbone,
        classes: int,
        channels: int,
        mean: Sequence[float],
        std: Sequence[float],
        *,
        side: int = 0,
    ) -> None:
        super().__init__()
        if backbone.kind != "images" or channels not in (1, 3):
            raise InputError(
                f"backbone {backbone.name!r} reads {backbone.kind}, and the data set has samples "
                f"of {channels} channels: as a model it needs images of 1 or 3 channels"
            )
        if side and side < _SMALLEST:
            raise InputError(f"model option side is {side}: give {_SMALLEST} pixels or more")
        low, high = (_prepare_plain(backbone, level) for level in (0, 255))
        slope, offset = (high - low)[:, :1, :1], low[:, :1, :1]
        own_mean, own_std = (torch.tensor(values).reshape(-1, 1, 1) for values in (mean, std))
        # x · std + mean is on the 0..1 scale, from which the backbone's own goes on.
        self.register_buffer("scale", slope * own_std, persistent=False)
        self.register_buffer("shift", slope * own_mean + offset, persistent=False)
        self.size = (side, side) if side else tuple(low.shape[1:])
        self.body = backbone.model.requires_grad_(requires_grad=True)
        self.body.eval()
        with torch.no_grad():
            width = self._features(torch.zeros(2, channels, *self.size)).shape[1]
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Map normalised images [N, C, H, W] to logits [N, classes]."""
        logits: Tensor = self.head(self._features(x))
        return logits

    def _features(self, x: Tensor) -> Tensor:
        if x.shape[2:] != self.size:
            x = F.interpolate(x, self.size, mode="bilinear", antialias=True, align_corners=False)
        rows: Tensor = self.body(x * self.scale + self.shift)
        return rows.flatten(2).mean(2) if rows.ndim > 2 else rows


def _prepare_plain(backbone: Backbone, level: int) -> Tensor:
    """Return the backbone's preprocessing of a uniformly grey image [3, H, W]."""
    from PIL import Image

    made = backbone.prepare(Image.new("RGB", (64, 64), (level,) * 3))
    plain = isinstance(made, Tensor) and made.ndim == 3 and len(made) == 3
    if not plain or not torch.allclose(made, made[:, :1, :1].expand_as(made), atol=1e-4):
        raise ModelError(
            f"backbone {backbone.name!r} does more to an image than resizing and scaling it: "
            "name a function of your own that returns the whole model"
        )
    result: Tensor = made
    return result


def build_on_backbone(
    name: str,
    mean: Sequence[float],
    std: Sequence[float],
    classes: int,
    channels: int,
    seed: int,
    options: Mapping[str, Any],
) -> BackboneClassifier:
    """Return a pretrained net with a linear head whose weights the seed decides.

    Args:
        name: ``backbone:`` and a name that ``find_backbone`` takes.
        mean: That images were normalised with, on the 0..1 scale [C].
        std: Likewise [C].
        classes: The number of classes.
        channels: Channels of the images.
        seed: Decides the weights of the head.
        options: ``side``, or none.

    Raises:
        InputError: If the backbone cannot be loaded or does not fit the images.
        UnknownNameError: For another option.
    """
    init = BackboneClassifier.__init__
    chosen = convert_options(f"model {name!r}", init, options, _GIVEN)
    backbone = find_backbone(name.removeprefix(PREFIX))
    with seeded(seed, "initial weights"):
        return BackboneClassifier(backbone, classes, channels, mean, std, **chosen)
