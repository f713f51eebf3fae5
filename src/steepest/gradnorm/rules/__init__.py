"""One rule per function: a call's contributions to the per-sample gradients of its parameters.

A rule takes the call and the gradient ``g`` of the loss with respect to its output, and returns a
share for each parameter asked for. Rules are exact; they never build more than a few samples'
gradients at once. Functions without a rule are differentiated for each sample by torch.
"""

from steepest.gradnorm.rules import broadcasting, convolution, embedding, linear, normalisation
from steepest.gradnorm.rules.base import RULES, Call, Rule, function_name, rule

__all__ = [
    "RULES",
    "Call",
    "Rule",
    "broadcasting",
    "convolution",
    "embedding",
    "function_name",
    "linear",
    "normalisation",
    "rule",
]
