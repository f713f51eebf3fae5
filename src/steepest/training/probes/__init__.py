"""Linear heads on features of a pretrained net."""

from __future__ import annotations

from steepest.training.probes.fit import fit_probe
from steepest.training.probes.probe import Probe, ProbeReport

__all__ = ["Probe", "ProbeReport", "fit_probe"]
