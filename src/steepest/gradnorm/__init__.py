"""Exact per-sample gradient norms: engine, one rule per function, slow reference."""

from steepest.gradnorm.explain import Explanation, explain
from steepest.gradnorm.norms import GradientNorms, Norm, gradient_norms
from steepest.gradnorm.reference import reference_norms
from steepest.gradnorm.rules import rule
from steepest.modules.precision import Precision

__all__ = [
    "Explanation",
    "GradientNorms",
    "Norm",
    "Precision",
    "explain",
    "gradient_norms",
    "reference_norms",
    "rule",
]
