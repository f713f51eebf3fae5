"""Sources of labels: the labels of a data set, a script, and applying their answers to a pool."""

from __future__ import annotations

from steepest.labelling.answers import Answers
from steepest.labelling.apply import apply
from steepest.labelling.labeller import Labeller
from steepest.labelling.oracle import OracleLabeller
from steepest.labelling.scripted import ScriptedLabeller

__all__ = ["Answers", "Labeller", "OracleLabeller", "ScriptedLabeller", "apply"]
