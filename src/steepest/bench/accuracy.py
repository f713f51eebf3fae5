"""Errors of norms, measured against one sample at a time in double precision."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from steepest.bench.case import Case
from steepest.gradnorm import reference_norms

CHECKED = 3
"""Number of samples of a batch to compare with the reference."""


def true_norms(case: Case) -> Tensor:
    """Return the norms of the first samples in double precision [CHECKED or fewer]."""
    inputs = case.inputs[:CHECKED]
    if inputs.is_floating_point():
        inputs = inputs.double()
    return reference_norms(copy.deepcopy(case.model).double(), inputs)


def largest_relative_error(found: Tensor, truth: Tensor) -> float:
    """Return the largest relative error among the samples that both hold.

    Raises:
        ArithmeticError: If a norm is not finite.
    """
    count = min(len(found), len(truth))
    found, truth = found[:count].detach().double(), truth[:count]
    if not bool(torch.isfinite(found).all()):
        raise ArithmeticError("a norm is NaN or infinite")
    return float(((found - truth).abs() / truth.abs().clamp_min(1e-300)).max())
