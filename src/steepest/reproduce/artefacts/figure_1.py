"""Accuracy on CIFAR-10, CIFAR-100, SVHN and Caltech-101."""

from __future__ import annotations

from steepest.reproduce.artefact import artefact
from steepest.reproduce.curves import CurveSet, CurvesFigure

METHODS = (
    "random",
    "mc-dropout",
    "qbc",
    "core-set",
    "ll4al",
    "vaal",
    "sraal",
    "core-gcn",
    "expected-gradnorm",
    "entropy-gradnorm",
)
"""What the paper compares."""

BESIDE = ("entropy", "margin", "fisher-gradnorm")
"""What it does not compare with."""


@artefact("figure-1")
class SmallImages(CurvesFigure):
    """Learning curves on four image sets, with the line of a model that has all labels."""

    title = "Accuracy on CIFAR-10, CIFAR-100, SVHN and Caltech-101"
    paper = "Figure 1"
    aliases = ("accuracy",)
    sets = (
        CurveSet("cifar10", "CIFAR-10", METHODS, BESIDE, "cifar10-full"),
        CurveSet("cifar100", "CIFAR-100", METHODS, BESIDE, "cifar100-full"),
        CurveSet("svhn", "SVHN", METHODS, BESIDE, "svhn-full"),
        CurveSet("caltech101", "Caltech-101", METHODS, BESIDE, "caltech101-full"),
    )
    note = (
        "The paper prints few of this figure's numbers. Those marked ≈ were read off the figure of "
        "an earlier paper of the same group with the same protocol, with a ? where that was hard; "
        "those marked ≤ are what the paper's own gap between training and test accuracy leaves "
        "room for."
    )
