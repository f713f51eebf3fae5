"""Accuracy on ImageNet, and segmentation of Cityscapes."""

from __future__ import annotations

from steepest.paper.artefact import artefact
from steepest.paper.curves import CurveSet, CurvesFigure
from steepest.paper.protocol import FIGURE_METHODS

_IMAGENET = tuple(name for name in FIGURE_METHODS if name != "core-gcn")
_CITYSCAPES = tuple(name for name in _IMAGENET if name != "expected-gradnorm")

_BESIDE = ("expected-gradnorm", "entropy", "margin")
"""The paper takes the first for impossible here. The expectation of a mean over pixels is the mean
of their expectations, so that it is not."""


@artefact("figure-2")
class LargeScale(CurvesFigure):
    """Learning curves on a million images, and on street scenes."""

    title = "Accuracy on ImageNet and mean IoU on Cityscapes"
    paper = "Figure 2"
    aliases = ("large-scale", "imagenet", "cityscapes")
    sets = (
        CurveSet("imagenet", "ImageNet", _IMAGENET),
        CurveSet("cityscapes", "Cityscapes", _CITYSCAPES, _BESIDE, words="mean IoU"),
    )
    note = (
        "The paper prints none of this figure's numbers; the published ones here are of other "
        "papers with the same model. On ImageNet Adam begins at a learning rate of 1e-4, not at "
        "the paper's 0.1."
    )
