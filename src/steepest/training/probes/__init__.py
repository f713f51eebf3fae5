"""Linear heads on features of a pretrained net."""

from __future__ import annotations

from steepest.training.probes.fit import fit_probe, held_out_probabilities
from steepest.training.probes.learning import begin_from_probe, find_only_layer, learn_head
from steepest.training.probes.probe import Probe, ProbeReport

__all__ = [
    "Probe",
    "ProbeReport",
    "begin_from_probe",
    "find_only_layer",
    "fit_probe",
    "held_out_probabilities",
    "learn_head",
]
