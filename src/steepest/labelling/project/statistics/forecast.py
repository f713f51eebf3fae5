"""Forecasts the number of labels that an accuracy needs, with its uncertainty."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from steepest.core.seeds import generator
from steepest.errors import InputError
from steepest.labelling.project.project import Project
from steepest.labelling.project.statistics.curve import (
    CurvePoint,
    binomial_interval,
    learning_curve,
)

Status = Literal["too-few", "reached", "out-of-reach", "estimate"]
Numbers = npt.NDArray[np.float64]

_LEAST_POINTS = 4
_LEAST_VALIDATION = 10
_DRAWS = 400
_POWERS = np.linspace(0.05, 1.5, 30)
_SHARED = 0.5
"""How much of the luck all points have in common: most of their test samples are the same."""
_LOW, _MIDDLE, _HIGH = 0.1, 0.5, 0.9
_LEAST_SURE = 0.01
"""A share of curves up to which a target counts as out of reach; up to one half nothing is said.

It is no probability: noise bends a fitted curve flat more easily than it straightens it. Where a
target was within reach, up to a tenth of the curves got there in as many as three simulated
projects of ten, up to a hundredth in less than one.
"""


@dataclass(frozen=True)
class Forecast:
    """The labels needed for an accuracy.

    Attributes:
        status: ``too-few`` points or tests to say, ``reached``, ``out-of-reach`` or ``estimate``.
        target: The accuracy asked about.
        labels_now: Labels that the latest model was trained on.
        total_labels: How many a model is likely to need.
        low: Lower end of the 80 % interval.
        high: Upper end; None if there is no end to be seen.
        more: Answers that are likely to be missing, with those that are only tested on.
        message: All that in one plain line.
    """

    status: Status
    target: float
    labels_now: int
    total_labels: int | None
    low: int | None
    high: int | None
    more: int | None
    message: str


def forecast(project: Project, target: float) -> Forecast:
    """Say how many labels an accuracy is likely to need.

    Args:
        project: Whose learning curve is drawn out.
        target: The accuracy on the samples held out.

    Raises:
        InputError: If the target is no accuracy.
    """
    with project.store.reading() as connection:
        available = connection.execute(
            "SELECT count(*) FROM images WHERE held_out = 0 AND missing = 0 AND unreadable IS NULL"
        ).fetchone()[0]
    return forecast_curve(
        learning_curve(project),
        target,
        available=available,
        share=project.settings.validation_share,
        seed=project.settings.seed,
    )


def forecast_curve(
    points: Sequence[CurvePoint],
    target: float,
    *,
    available: int,
    share: float = 0.0,
    seed: int = 0,
) -> Forecast:
    """Draw out a learning curve by error = a · labels^(-b) + c.

    The points' own uncertainty is passed on: errors that the tests allow are drawn again many
    times, and each time another curve is fitted.

    Args:
        points: The curve so far.
        target: The accuracy asked about.
        available: Samples that can be trained on.
        share: Part of all answers that is only tested on.
        seed: Decides the draws.

    Raises:
        InputError: If the target is no accuracy.
    """
    if not 0 < target < 1:
        raise InputError(f"target is {target}; give an accuracy above 0 and below 1")
    usable = [p for p in points if p.validation >= _LEAST_VALIDATION and p.labels > 0]
    now = points[-1].labels if points else 0
    distinct = len({p.labels for p in usable})
    if distinct < _LEAST_POINTS:
        return _say(
            "too-few",
            target,
            now,
            f"too early to say: {distinct} of {_LEAST_POINTS} models with at least "
            f"{_LEAST_VALIDATION} test samples each",
        )
    last = usable[-1]
    share_right, low, high = binomial_interval(last.correct, last.validation)
    if share_right is not None and share_right >= target:
        interval = f"95 % interval {low:.1%} to {high:.1%}"
        if low is not None and low < target:
            interval += f", so that it may still be below {target:.1%}"
        return _say(
            "reached", target, now, f"reached: {share_right:.1%} with {now} labels ({interval})"
        )
    needed = np.sort(_labels_needed(usable, target, seed))
    low_n, middle, high_n = (float(needed[int(q * (_DRAWS - 1))]) for q in (_LOW, _MIDDLE, _HIGH))
    reach = float((needed <= available).mean())
    if _LEAST_SURE < reach < _MIDDLE:
        return _say(
            "too-few",
            target,
            now,
            f"too early to say: of the curves that fit the tests, {reach:.0%} get to {target:.1%} "
            f"with the {available} samples there are; more test samples will tell",
        )
    if middle > available:
        return _say(
            "out-of-reach",
            target,
            now,
            f"{target:.1%} looks out of reach with this model and the {available} samples there "
            f"are ({reach:.0%} of the curves that fit the tests get there): try another model, "
            "larger images or weights to begin from",
        )
    return _estimate(target, now, (low_n, middle, high_n), available, share)


def _estimate(
    target: float, now: int, needed: tuple[float, float, float], available: int, share: float
) -> Forecast:
    low, middle = (max(now, math.ceil(n)) for n in needed[:2])
    high = math.ceil(needed[2]) if needed[2] <= available else None
    more = math.ceil(max(0, middle - now) / (1.0 - share))
    upper = f"to {high}" if high is not None else "to more than there are samples"
    message = (
        f"{target:.1%} needs about {middle} labels to train on (80 % interval {low} {upper}): "
        f"about {more} more answers"
    )
    return Forecast("estimate", target, now, middle, low, high, more, message)


def _say(status: Status, target: float, now: int, message: str) -> Forecast:
    return Forecast(status, target, now, None, None, None, None, message)


def _labels_needed(points: Sequence[CurvePoint], target: float, seed: int) -> Numbers:
    """Return the labels that each drawn curve needs [draws]; infinity if it never gets there."""
    from scipy.special import betaincinv, ndtr

    labels = np.array([p.labels for p in points], dtype=np.float64)
    tested = np.array([p.validation for p in points], dtype=np.float64)
    wrong = tested - np.array([p.correct for p in points], dtype=np.float64)
    random = generator(seed, "forecast")
    shape = (_DRAWS, len(points) + 1)
    luck = torch.randn(shape, generator=random, dtype=torch.float64).numpy()
    mixed = math.sqrt(_SHARED) * luck[:, :1] + math.sqrt(1 - _SHARED) * luck[:, 1:]
    errors = betaincinv(wrong + 0.5, tested - wrong + 0.5, ndtr(mixed))
    factor, power, floor = fit_power_law(labels, errors, tested)
    gap = (1.0 - target) - floor
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        return np.where(gap > 0, (factor / np.maximum(gap, 1e-12)) ** (1.0 / power), np.inf)


def fit_power_law(
    labels: Numbers, errors: Numbers, weights: Numbers
) -> tuple[Numbers, Numbers, Numbers]:
    """Fit error = a · labels^(-b) + c with a and c not below 0, by weighted least squares.

    Args:
        labels: [P].
        errors: Several curves [R, P].
        weights: [P].

    Returns:
        a, b and c of each curve [R].
    """
    best = np.full(len(errors), np.inf)
    found = np.zeros((3, len(errors)))
    shares = weights / weights.sum()
    for power in _POWERS:
        x = labels**-power
        for a, c in _solve(x, errors, shares):
            misses = ((errors - a[:, None] * x - c[:, None]) ** 2) @ shares
            # Of curves that fit alike the steeper one is no better founded: keep the first.
            better = misses < best - 1e-15
            best = np.where(better, misses, best)
            found = np.where(better, np.stack([a, np.full_like(a, power), c]), found)
    return found[0], found[1], found[2]


def _solve(x: Numbers, errors: Numbers, shares: Numbers) -> list[tuple[Numbers, Numbers]]:
    """Return the candidates (a, c) of each curve: free where allowed, and on the two borders."""
    mean_x, mean_e = x @ shares, errors @ shares
    variance = ((x - mean_x) ** 2) @ shares
    slope = ((errors - mean_e[:, None]) * (x - mean_x)) @ shares / max(float(variance), 1e-300)
    free = np.maximum(slope, 0.0)
    level = mean_e - free * mean_x
    through_zero = (errors * x) @ shares / float((x * x) @ shares)
    zero = np.zeros_like(mean_e)
    return [
        (np.where(level < 0, through_zero, free), np.maximum(level, 0.0)),
        (through_zero, zero),
    ]
