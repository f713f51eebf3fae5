"""The net whose weights come with the extra [label]: features of photographs without a network."""

from __future__ import annotations

import copy

from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from steepest.models import build, load_weights
from steepest.models.backbones.base import Backbone
from steepest.models.backbones.photo import PhotoRecipe
from steepest.models.efficientnet_lite0 import EfficientNetLite0, find_imagenet_weights

NAME = "efficientnet-lite0"

_CLASSES = 1000
SIDE = 160
"""Side in pixels of the squares that the net looks at."""


def load_embedded(*, weights: bool = True) -> Backbone:
    """Return EfficientNet-Lite0 with its ImageNet weights.

    Args:
        weights: Whether to load these; without them the weights are random, and others follow.

    Raises:
        InputError: If the package with the weights is not installed.
    """
    model = build(NAME, _CLASSES, 3, seed=0)
    if weights:
        load_weights(model, find_imagenet_weights())
    model._fc = nn.Identity()  # noqa: SLF001 - the published name of its head
    model.eval()
    recipe = PhotoRecipe(SIDE, mean=(127.0,) * 3, std=(128.0,) * 3)
    return Backbone(
        NAME,
        model,
        recipe,
        repr(recipe),
        quick=_fused(model) if weights else None,
        needed_side=2 * SIDE,
    )


def _fused(model: nn.Module) -> nn.Module:
    """Return the same net with normalisation folded into its convolutions."""
    quick = copy.deepcopy(model)
    pairs = (("_conv_stem", "_bn0"), ("_conv_head", "_bn1"))
    inner = (("_expand_conv", "_bn0"), ("_depthwise_conv", "_bn1"), ("_project_conv", "_bn2"))
    if not isinstance(quick, EfficientNetLite0):
        return quick
    for names, holders in ((pairs, [quick]), (inner, list(quick._blocks))):  # noqa: SLF001
        for holder in holders:
            for convolution, norm in names:
                if getattr(holder, convolution) is None:
                    continue
                fused = fuse_conv_bn_eval(getattr(holder, convolution), getattr(holder, norm))
                setattr(holder, convolution, fused)
                setattr(holder, norm, nn.Identity())
    return quick.eval()
