"""Multinomial logistic regression with a Gaussian prior, to the minimum."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_BIAS_VARIANCE = 100.0
_MOST_STEPS = 500
_REMEMBERED = 12
_HALVINGS = 30
_ENOUGH = 1e-4
_GOLDEN = (math.sqrt(5) - 1) / 2


class Solution(NamedTuple):
    """Weights [C, D] and biases [C]."""

    weights: Floats
    biases: Floats

    def logits(self, x: Floats) -> Floats:
        """Return logits [N, C] of rows [N, D]."""
        scores: Floats = x @ self.weights.T + self.biases
        return scores


def solve(
    x: Floats,
    y: Integers,
    classes: int,
    variance: float,
    *,
    start: Solution | None = None,
    tolerance: float = 1e-6,
) -> Solution:
    """Minimise Σ_n −log softmax(W x_n + b)_{y_n} + ‖W‖² / 2v + ‖b‖² / 200.

    The biases' own wide prior keeps them finite for a class that no row has; the minimum is unique.

    Args:
        x: Rows [N, D].
        y: Classes [N].
        classes: How many there are.
        variance: v, of the prior: the larger, the less is regularised.
        start: Where to begin; the minimum does not depend on it but for rounding.
        tolerance: The largest entry of the gradient at the end, for each row.
    """
    everyone = np.ones((1, len(y)), dtype=bool)
    starts = None if start is None else [start]
    (found,) = solve_parts(x, y, classes, variance, everyone, starts=starts, tolerance=tolerance)
    return found


def solve_parts(
    x: Floats,
    y: Integers,
    classes: int,
    variance: float,
    parts: npt.NDArray[np.bool_],
    *,
    starts: Sequence[Solution] | None = None,
    tolerance: float = 1e-6,
    single: bool = False,
) -> list[Solution]:
    """Solve for several parts of the rows at once, each by itself.

    One product serves all parts: for few rows that is several times as fast as one after another.

    Args:
        x: Rows [N, D].
        y: Classes [N].
        classes: How many there are.
        variance: v, of the prior.
        parts: The rows of each [P, N].
        starts: Where to begin [P].
        tolerance: The largest entry of the gradient at the end, for each row.
        single: Compute in single precision, for a tolerance of no less than 1e-5.
    """
    problem = _Problem(x, y, classes, variance, parts, torch.float32 if single else torch.float64)
    table = _minimise(problem, problem.start(starts), tolerance)
    return problem.solutions(table)


class _Problem:
    """The losses of all parts, as functions of one table [P, C · (D + 1)]."""

    def __init__(
        self,
        x: Floats,
        y: Integers,
        classes: int,
        variance: float,
        parts: npt.NDArray[np.bool_],
        dtype: torch.dtype,
    ) -> None:
        self.sizes = torch.from_numpy(parts.sum(1)).to(dtype)
        self.shape = (len(parts), classes, x.shape[1] + 1)
        whole = np.hstack([x, np.ones((len(x), 1))])
        prior = np.append(np.full(x.shape[1], 1 / variance), 1 / _BIAS_VARIANCE)
        # Units in which the loss is about as stiff along every axis take far fewer steps.
        doubt = (1 - 1 / classes) / classes
        units = 1 / np.sqrt(doubt * np.square(whole).sum(axis=0) + prior)
        self.units, self.prior = (
            torch.from_numpy(units),
            torch.from_numpy(prior * units**2).to(dtype),
        )
        self.x = torch.from_numpy(whole * units).to(dtype)
        self.y = torch.from_numpy(y)
        self.inside = torch.from_numpy(parts).to(dtype)
        self._one_hot = torch.zeros(len(y), classes, dtype=dtype)
        self._one_hot[torch.arange(len(y)), self.y] = 1

    def start(self, starts: Sequence[Solution] | None) -> Tensor:
        """Return where to begin [P, C · (D + 1)]."""
        table = torch.zeros(self.shape, dtype=torch.float64)
        for row, start in enumerate(starts or ()):
            table[row, :, :-1] = torch.from_numpy(start.weights)
            table[row, :, -1] = torch.from_numpy(start.biases)
        return (table / self.units).to(self.x.dtype).flatten(1)

    def solutions(self, table: Tensor) -> list[Solution]:
        """Return what the rows of a table stand for [P]."""
        plain = (table.view(self.shape) * self.units).numpy()
        return [Solution(one[:, :-1], one[:, -1].copy()) for one in plain]

    def __call__(self, table: Tensor) -> tuple[Tensor, Tensor]:
        """Return each part's loss for a row of it [P], and the gradient [P, C · (D + 1)]."""
        count, classes, width = self.shape
        logits = self.x @ table.view(count * classes, width).T
        logits = logits.view(-1, count, classes)
        sums = logits.logsumexp(2)
        hit = logits.gather(2, self.y[:, None, None].expand(-1, count, 1))[:, :, 0]
        pull = table.view(self.shape) * self.prior
        loss = ((sums - hit) * self.inside.T).sum(0) + 0.5 * (pull.flatten(1) * table).sum(1)
        p = logits.sub_(sums[:, :, None]).exp_().sub_(self._one_hot[:, None])
        p *= self.inside.T[:, :, None]
        gradient = pull.flatten(1) + (p.view(len(p), -1).T @ self.x).view(count, -1)
        return loss / self.sizes, gradient / self.sizes[:, None]


def _minimise(problem: _Problem, table: Tensor, tolerance: float) -> Tensor:
    """Run L-BFGS for all parts side by side, each with its own step and memory."""
    loss, gradient = problem(table)
    pairs: list[tuple[Tensor, Tensor, Tensor]] = []
    least = torch.finfo(table.dtype).eps
    for _ in range(_MOST_STEPS):
        active = gradient.abs().amax(1) > tolerance
        if not bool(active.any()):
            break
        direction = -_precondition(gradient, pairs)
        slope = (direction * gradient).sum(1)
        # By rounding it may lead nowhere; the gradient never does.
        bad = slope >= 0
        if bool(bad.any()):
            direction = torch.where(bad[:, None], -gradient, direction)
            slope = (direction * gradient).sum(1)
        step = torch.ones_like(loss)
        if not pairs:
            step = 1 / gradient.norm(dim=1).clamp_min(1)
        step = torch.where(active, step, 0.0)
        for _ in range(_HALVINGS):
            moved = table + step[:, None] * direction
            new_loss, new_gradient = problem(moved)
            # Losses that differ by rounding alone are as good as less.
            slack = 4 * least * loss.abs()
            worse = active & ~(new_loss <= loss + _ENOUGH * step * slope + slack)
            if not bool(worse.any()):
                break
            step = torch.where(worse, step / 2, step)
        s, d = moved - table, new_gradient - gradient
        curvature = (s * d).sum(1)
        # Parts that stay where they are, or whose change is rounding, add nothing.
        told = curvature > least * s.norm(dim=1) * d.norm(dim=1)
        if not bool((told & active).any()):
            return moved
        inverse = torch.where(told, 1 / curvature.where(told, torch.ones_like(curvature)), 0.0)
        pairs = [*pairs[-_REMEMBERED + 1 :], (s, d, inverse)]
        table, loss, gradient = moved, new_loss, new_gradient
    return table


def _precondition(gradient: Tensor, pairs: Sequence[tuple[Tensor, Tensor, Tensor]]) -> Tensor:
    """Return the product of gradients [P, W] with the inverse Hessians that steps tell of."""
    q = gradient.clone()
    shares = []
    for s, d, inverse in reversed(pairs):
        share = inverse * (s * q).sum(1)
        q -= share[:, None] * d
        shares.append(share)
    if pairs:
        s, d, inverse = pairs[-1]
        squares = d.square().sum(1)
        known = (inverse > 0) & (squares > 0)
        size = torch.where(known, 1 / (inverse * squares).where(known, torch.ones_like(squares)), 1)
        q *= size[:, None]
    for (s, d, inverse), share in zip(pairs, reversed(shares), strict=True):
        q += (share - inverse * (d * q).sum(1))[:, None] * s
    return q


def log_loss(logits: Floats, y: Integers, temperature: float = 1.0, doubt: float = 0.0) -> float:
    """Return the mean of −log softmax(logits / temperature) at the classes.

    Args:
        logits: [N, C].
        y: Classes [N].
        temperature: Divides the logits.
        doubt: The share of each label that is spread over all classes.
    """
    scaled = logits / temperature
    scaled = scaled - scaled.max(axis=1, keepdims=True)
    sums = np.log(np.exp(scaled).sum(axis=1))
    hit = (1 - doubt) * scaled[np.arange(len(y)), y] + doubt * scaled.mean(axis=1)
    return float((sums - hit).mean())


def best_temperature(logits: Floats, y: Integers, doubt: float = 0.0) -> float:
    """Return the temperature, between 1/20 and 20, with the least loss."""
    # As a function of 1 / temperature the loss has one valley; the logarithm keeps it.
    low, high = -math.log(20.0), math.log(20.0)

    def loss(t: float) -> float:
        return log_loss(logits, y, math.exp(t), doubt)

    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = loss(left), loss(right)
    while high - low > 1e-4:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = loss(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = loss(right)
    return math.exp((low + high) / 2)
