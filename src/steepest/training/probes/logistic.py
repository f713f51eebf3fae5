"""Multinomial logistic regression with a Gaussian prior, to the minimum."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_BIAS_VARIANCE = 100.0
_MOST_STEPS = 500


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
    from scipy.optimize import minimize

    width = x.shape[1]
    # In units of the prior both blocks are equally stiff, which takes fewer steps.
    scale, bias_scale = np.sqrt(variance), np.sqrt(_BIAS_VARIANCE)
    rows = np.arange(len(y))

    def objective(flat: Floats) -> tuple[float, Floats]:
        table = flat.reshape(classes, width + 1)
        logits = scale * (x @ table[:, :width].T) + bias_scale * table[:, width]
        logits -= logits.max(axis=1, keepdims=True)
        p = np.exp(logits)
        sums = p.sum(axis=1, keepdims=True)
        loss = float(np.log(sums).sum() - logits[rows, y].sum() + 0.5 * flat @ flat)
        p /= sums
        p[rows, y] -= 1.0
        gradient = table.copy()
        gradient[:, :width] += scale * (p.T @ x)
        gradient[:, width] += bias_scale * p.sum(axis=0)
        return loss / len(y), gradient.ravel() / len(y)

    begin = np.zeros((classes, width + 1))
    if start is not None:
        begin[:, :width] = start.weights / scale
        begin[:, width] = start.biases / bias_scale
    options = {"maxiter": _MOST_STEPS, "gtol": tolerance, "ftol": 0.0}
    found = minimize(objective, begin.ravel(), jac=True, method="L-BFGS-B", options=options)
    table = found.x.reshape(classes, width + 1)
    return Solution(scale * table[:, :width], bias_scale * table[:, width])


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
    from scipy.optimize import minimize_scalar

    widest = float(np.log(20.0))
    # As a function of 1 / temperature the loss has one valley; the logarithm keeps it.
    found = minimize_scalar(
        lambda t: log_loss(logits, y, float(np.exp(t)), doubt),
        bounds=(-widest, widest),
        method="bounded",
    )
    return float(np.exp(found.x))
