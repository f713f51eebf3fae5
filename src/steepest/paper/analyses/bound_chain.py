"""The paper's figure of bounds: Target, Approx-1, -2 and -3, and how far apart they are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from steepest.errors import InputError
from steepest.gradnorm.norms import SampleNorm
from steepest.influence import BoundTerms, vectors
from steepest.paper.analyses.agreement import Targets
from steepest.paper.analyses.directions import CurvatureName
from steepest.paper.analyses.sample_norms import LossName
from steepest.strategies.algorithms.ranking import Values


@dataclass(frozen=True, kw_only=True)
class BoundChain:
    """The four terms of one cycle and scheme, over all unlabelled samples.

    Attributes:
        cycle: Counted from 0: that of T(c); terms are about T(c+1).
        scheme: The label-free loss.
        curvature: The inverted matrix.
        damping: λ; None for λ → ∞, where every term grows without limit but for the common length
            of s: then s is v.
        norm: Of the gradient in Approx-2 and Approx-3.
        samples: N.
        target: Mean of s · ∇L(x), which may be negative.
        approx1: Mean of |s · ∇L(x)|.
        approx2: Mean of ‖∇L(T(c+1)(x))‖ · ‖s‖.
        approx3: Mean of ‖∇L(T(c)(x))‖ · ‖s‖.
        median_ratio: Median of Approx-2 / |Target|; None if a Target is 0 in the middle.
        worst_share: Largest |Target| / Approx-2, at most 1 but for rounding.
        broken: Samples for which |Target| ≤ Approx-2 does not hold: of a wrong computation.
        mean_holds: Whether |mean Target| ≤ mean Approx-1.
        above_before: Share of samples with Approx-2 > Approx-3, where the paper's last step fails.
        sound: Whether the matrix was positive definite and the system solved to tolerance.
        solver: The solver's report.
    """

    cycle: int
    scheme: LossName
    curvature: CurvatureName
    damping: float | None
    norm: SampleNorm
    samples: int
    target: float
    approx1: float
    approx2: float
    approx3: float
    median_ratio: float | None
    worst_share: float
    broken: int
    mean_holds: bool
    above_before: float
    sound: bool
    solver: dict[str, Any]


def chain_of_bounds(
    targets: Targets, norms_after: Values, norms_before: Values, *, cycle: int, norm: SampleNorm
) -> BoundChain:
    """Return the four terms, with checks for every sample.

    Args:
        targets: Influences under T(c+1) [N].
        norms_after: ‖∇L(x)‖ under T(c+1), over the parameters that s has entries for [N].
        norms_before: The same under T(c) [N].
        cycle: Counted from 0.
        norm: The norm.

    Raises:
        InputError: If the system had no solution, or numbers of samples differ.
    """
    terms = bound_terms_of(targets, norms_after, norms_before, norm)
    direction = targets.direction
    target, approx1, approx2 = (t.numpy() for t in (terms.target, terms.approx1, terms.approx2))
    ratio = float(np.median(_quotient(approx2, approx1)))
    return BoundChain(
        cycle=cycle,
        scheme=direction.loss,
        curvature=direction.curvature,
        damping=None if math.isinf(direction.damping) else direction.damping,
        norm=norm,
        samples=len(target),
        target=float(target.mean()),
        approx1=float(approx1.mean()),
        approx2=float(approx2.mean()),
        approx3=float(norms_before.mean()) * terms.solution_norm,
        median_ratio=ratio if math.isfinite(ratio) else None,
        worst_share=float(_quotient(approx1, approx2).max()),
        broken=int((~terms.holds()).sum()),
        mean_holds=bool(abs(target.mean()) <= approx1.mean()),
        above_before=float((norms_after > norms_before).mean()),
        sound=direction.sound,
        solver=direction.diagnostics,
    )


def bound_terms_of(
    targets: Targets, norms_after: Values, norms_before: Values, norm: SampleNorm
) -> BoundTerms:
    """Return the terms of every sample.

    Raises:
        InputError: If the system had no solution, or numbers of samples differ.
    """
    direction = targets.direction
    if targets.values is None or direction.vector is None:
        raise InputError("there is no s to bound anything by: use more damping")
    if not len(targets.values) == len(norms_after) == len(norms_before) > 0:
        raise InputError("influences and norms are of different samples: use one pool for all")
    length = vectors.norm(direction.vector)
    target = torch.from_numpy(targets.values)
    return BoundTerms(
        target=target,
        approx1=target.abs(),
        approx2=length * torch.from_numpy(norms_after),
        approx3=length * torch.from_numpy(norms_before),
        solution_norm=length,
        norm=norm,
        loss=direction.loss,
        note="",
    )


def _quotient(above: Values, below: Values) -> Values:
    """Return a / b; 0 where a is 0 too, as a sample without a gradient bounds nothing."""
    found = np.full_like(above, math.inf)
    np.divide(above, below, out=found, where=below != 0)
    return np.where(above == 0, 0.0, found)
