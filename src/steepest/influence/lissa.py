"""LiSSA: a series for the inverse product that makes do with a part of the examples at a time.

The iteration h ← v + (1 − λ/σ) h − C h / σ has the fixed point h = σ (C + λI)⁻¹ v. What other
programs call damping is λ/σ: with a scale σ of 10⁴ their 0.01 is a λ of 100, next to which the
curvature does not count. Here λ itself is given.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from steepest.core.progress import Progress, Step, as_progress
from steepest.core.seeds import generator
from steepest.errors import InputError
from steepest.influence import vectors
from steepest.influence.curvature import Curvature
from steepest.influence.objective import check_amount, check_count
from steepest.influence.solution import Solution, StopWatch, join_notes, relative_residual
from steepest.influence.vectors import Vector

_CHECK_EVERY = 10
_CHECKS_IN_A_ROW = 3
_GROWTH = 1.5
"""Growth of the change, three checks in a row, that random draws alone do not explain."""

_MOST_RESTARTS = 8


def largest_eigenvalue(curvature: Curvature, *, iterations: int = 20, seed: int = 0) -> float:
    """Return an estimate of the eigenvalue of largest magnitude, always from below.

    Args:
        curvature: Of which matrix.
        iterations: Products to spend.
        seed: Seeds the direction to start from.
    """
    direction = vectors.draw_normal(curvature.parameters, seed, "power iteration")
    value = 0.0
    for _ in range(iterations):
        direction = vectors.scaled(1 / vectors.norm(direction), direction)
        product = curvature.product(direction)
        before, value = value, vectors.norm(product)
        if value == 0 or abs(value - before) <= 1e-3 * value:
            break
        direction = product
    return value


def solve_lissa(
    curvature: Curvature,
    wanted: Vector,
    *,
    damping: float,
    scale: float | None = None,
    depth: int = 1000,
    batch: int | None = None,
    repeats: int = 1,
    tolerance: float = 1e-3,
    seed: int = 0,
    progress: bool | Progress = True,
) -> Solution:
    """Return s with (C + λI) s ≈ v by a stochastic series.

    Args:
        curvature: C, weight decay included.
        wanted: v.
        damping: λ, the effective damping, whatever the scale is.
        scale: σ; more than half the largest eigenvalue of C + λI. None takes 1.5 times an
            estimate of the largest.
        depth: Steps at most.
        batch: Examples for each step, drawn by the seed; None takes all of them.
        repeats: Runs with other draws, of which the mean of those that do not diverge is
            returned; one is enough without draws.
        tolerance: Stop early at this residual, if every step takes all examples.
        seed: Seeds the draws.
        progress: Whether to show progress.

    Raises:
        InputError: If an argument does not fit.
    """
    check_amount("damping", damping)
    for name, value in {"depth": depth, "repeats": repeats, "batch": batch or 1}.items():
        check_count(name, value)
    if scale is not None and check_amount("scale", scale) <= damping:
        raise InputError(f"scale {scale} is not above damping {damping}: give more, or None")
    vectors.check_vector(wanted, curvature.parameters)
    watch = StopWatch()
    if scale is None:
        scale = 1.5 * (largest_eigenvalue(curvature, seed=seed) + damping) or 1.0
    drawn = None if batch is None or batch >= len(curvature.objective) else batch
    series = _Series(curvature, wanted, damping, drawn, depth, tolerance, seed)
    runs: list[_Run] = []
    with as_progress(progress).task("LiSSA", depth * repeats) as step:
        for repeat in range(repeats if drawn else 1):
            run = series.run_to_the_end(scale, repeat, step)
            # A run that failed at every scale says nothing of the one that others take.
            scale = scale if run.diverged else run.scale
            runs.append(run)
    return _summarise(series, runs, watch)


@dataclass(frozen=True, eq=False)
class _Run:
    """Outcome of one run."""

    vector: Vector
    scale: float
    residuals: tuple[float, ...]
    restarts: int
    diverged: bool
    rayleigh: float | None


class _Series:
    """Settings shared by all runs."""

    def __init__(
        self,
        curvature: Curvature,
        wanted: Vector,
        damping: float,
        batch: int | None,
        depth: int,
        tolerance: float,
        seed: int,
    ) -> None:
        self.curvature, self.wanted, self.damping = curvature, wanted, damping
        self.batch, self.depth, self.tolerance, self.seed = batch, depth, tolerance, seed
        self.length = vectors.norm(wanted)

    def run_to_the_end(self, scale: float, repeat: int, step: Step) -> _Run:
        """Run, with twice the scale whenever it diverges."""
        for restarts in range(_MOST_RESTARTS):
            found, residuals, diverged = self._run(scale, repeat, step)
            if not diverged:
                return _Run(found, scale, residuals, restarts, False, None)
            rayleigh = self._rayleigh(found)
            if rayleigh is not None and rayleigh <= 0:
                # No scale helps against a direction of negative curvature.
                break
            scale *= 2
        return _Run(vectors.zeros_like(found), scale, residuals, restarts, True, rayleigh)

    def _run(self, scale: float, repeat: int, step: Step) -> tuple[Vector, tuple[float, ...], bool]:
        shrink = 1 - self.damping / scale
        alarm = _Alarm(self.length)
        h, residuals = self.wanted, []
        for t in range(self.depth):
            product = self.curvature.product(h, self._rows(repeat, t))
            following = vectors.axpy(shrink, h, vectors.axpy(-1 / scale, product, self.wanted))
            # The change is what is left of v: v − (C + λI) h / σ.
            change = vectors.norm(vectors.axpy(-1.0, h, following))
            residuals.append(change / self.length if self.length else 0.0)
            step.advance(note=f"residual {residuals[-1]:.1e}")
            if self.batch is None and residuals[-1] <= self.tolerance:
                break
            if alarm.rings(t, change, following):
                return h, tuple(residuals), True
            h = following
        return vectors.scaled(1 / scale, h), tuple(residuals), False

    def _rows(self, repeat: int, t: int) -> Tensor | None:
        if self.batch is None:
            return None
        draw = generator(self.seed, "lissa", repeat, t)
        return torch.randperm(len(self.curvature.objective), generator=draw)[: self.batch]

    def _rayleigh(self, h: Vector) -> float | None:
        """Return the curvature along where a run went astray."""
        length = vectors.norm(h)
        if not length or not math.isfinite(length):
            return None
        direction = vectors.scaled(1 / length, h)
        return vectors.dot(direction, self.curvature.product(direction)) + self.damping


class _Alarm:
    """Tells a series that diverges from one that is merely long.

    The sum itself grows in every good run, up to σ ‖s‖. What must not grow is its change from step
    to step; and where the scale fits, no step adds more than ‖v‖ to the sum.
    """

    def __init__(self, length: float) -> None:
        self._length = length
        self._last, self._grown = math.inf, 0

    def rings(self, t: int, change: float, following: Vector) -> bool:
        """Say whether the run is to be given up."""
        if not math.isfinite(change):
            return True
        if t % _CHECK_EVERY:
            return False
        self._grown = self._grown + 1 if change > _GROWTH * self._last else 0
        self._last = change
        past = vectors.norm(following) > 1.1 * (t + 2) * self._length
        return past or self._grown >= _CHECKS_IN_A_ROW


def _summarise(series: _Series, runs: list[_Run], watch: StopWatch) -> Solution:
    curvature = series.curvature
    # Vectors of runs that diverged are 0, and no part of a mean.
    good = [run for run in runs if not run.diverged]
    kept = good or runs
    found = vectors.mean_of(run.vector for run in kept)
    residual = relative_residual(curvature, found, series.wanted, series.damping)
    rayleigh = [run.rayleigh for run in runs if run.rayleigh is not None]
    indefinite = any(value <= 0 for value in rayleigh)
    part = f"{series.batch} examples a step, mean of {len(kept)} runs" if series.batch else ""
    restarts = sum(run.restarts for run in kept)
    notes = (
        f"scale {kept[-1].scale:.4g}",
        part,
        f"{restarts} restarts with twice the scale" if restarts else "",
        _describe_divergence(len(runs), len(runs) - len(good)),
        "a direction of negative curvature was met: use more damping" if indefinite else "",
        curvature.note,
    )
    return Solution(
        vector=found,
        solver="lissa",
        curvature=curvature.name,
        damping=series.damping,
        effective_damping=series.damping + curvature.objective.weight_decay,
        iterations=sum(len(run.residuals) for run in runs),
        residuals=kept[-1].residuals,
        residual=residual,
        converged=bool(good) and not indefinite and residual <= 2 * series.tolerance,
        indefinite=indefinite,
        smallest_eigenvalue=min(rayleigh, default=None),
        seconds=watch.seconds(),
        excluded=curvature.objective.excluded,
        note=join_notes(*notes),
    )


def _describe_divergence(runs: int, failed: int) -> str:
    if failed == runs:
        return "diverged; the vector is 0"
    return f"{failed} of {runs} runs diverged: left out of the mean" if failed else ""
