"""Sources of labels: the labels of a data set, a script, and applying their answers to a pool."""

from __future__ import annotations

from steepest.labelling.labeller import Answers, Labeller, ScriptedLabeller, apply
from steepest.labelling.oracle import OracleLabeller

__all__ = ["Answers", "Labeller", "OracleLabeller", "ScriptedLabeller", "apply"]
