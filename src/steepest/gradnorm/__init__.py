"""Exact per-sample gradient norms: engine, one rule per layer type, slow reference."""

from steepest.gradnorm.norms import Norm, gradient_norms
from steepest.gradnorm.reference import reference_norms
from steepest.gradnorm.rules import rule

__all__ = ["Norm", "gradient_norms", "reference_norms", "rule"]
