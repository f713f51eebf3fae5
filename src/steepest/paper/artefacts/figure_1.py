"""Accuracy on CIFAR-10, CIFAR-100, SVHN and Caltech-101."""

from __future__ import annotations

from steepest.paper.artefact import artefact
from steepest.paper.curves import CurveSet, CurvesFigure
from steepest.paper.protocol import FIGURE_METHODS

_BESIDE = ("entropy", "margin", "fisher-gradnorm")
"""Strategies that the paper does not compare with."""


@artefact("figure-1")
class SmallImages(CurvesFigure):
    """Learning curves on four image sets, with the line of a model that has all labels."""

    title = "Accuracy on CIFAR-10, CIFAR-100, SVHN and Caltech-101"
    paper = "Figure 1"
    aliases = ("accuracy",)
    sets = (
        CurveSet("cifar10", "CIFAR-10", FIGURE_METHODS, _BESIDE, "cifar10-full"),
        CurveSet("cifar100", "CIFAR-100", FIGURE_METHODS, _BESIDE, "cifar100-full"),
        CurveSet("svhn", "SVHN", FIGURE_METHODS, _BESIDE, "svhn-full"),
        CurveSet("caltech101", "Caltech-101", FIGURE_METHODS, _BESIDE, "caltech101-full"),
    )
    note = (
        "The paper prints few of this figure's numbers. Those marked ≈ were read off the figure of "
        "an earlier paper of the same group with the same protocol, with a ? where that was hard; "
        "those marked ≤ are what the paper's own gap between training and test accuracy leaves "
        "room for. The published accuracies on Caltech-101 are of a net that begins with weights "
        "from ImageNet: give them by --set caltech101:model.weights=FILE."
    )
