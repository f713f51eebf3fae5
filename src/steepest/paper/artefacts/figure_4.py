"""Accuracy on simulated cryo-ET subtomograms, clean and noisy."""

from __future__ import annotations

from steepest.paper.artefact import artefact
from steepest.paper.curves import CurveSet, CurvesFigure
from steepest.paper.protocol import FIGURE_METHODS


@artefact("figure-4")
class CryoEt(CurvesFigure):
    """Learning curves on volumes without noise, and with much of it."""

    title = "Accuracy on cryo-ET subtomograms, clean and at a signal-to-noise ratio of 0.05"
    paper = "Appendix A.5, Figure 4"
    aliases = ("cryoet", "a5")
    sets = (
        CurveSet("50c-clean", "50c-clean", FIGURE_METHODS, ("entropy", "margin")),
        CurveSet("50c-snr005", "50c-snr005", FIGURE_METHODS, ("entropy", "margin")),
    )
    note = (
        "The paper's volumes and classes are not published, and its figure has no numbers: these "
        "volumes are simulated anew, so compare the methods with each other."
    )
