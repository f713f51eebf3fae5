"""Fitting a probe: regularisation and temperature by cross-validation on the labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from steepest.core.seeds import SampleId, keyed_uniform
from steepest.errors import InputError, NonFiniteError
from steepest.training.probes.logistic import (
    Floats,
    Integers,
    Solution,
    best_temperature,
    log_loss,
    solve,
    solve_parts,
)
from steepest.training.probes.probe import Probe, ProbeReport

VARIANCES = tuple(10.0**power for power in range(-1, 6))
"""Regularisation strengths to choose from, for rows of root mean square length 1."""

_FOLDS = 5
_FEW_FOLDS, _MANY = 3, 500
_MOST_VALIDATED = 2_000
_ROUGHLY = 1e-5


def fit_probe(
    rows: Tensor,
    labels: Sequence[int] | Tensor,
    classes: int | None = None,
    *,
    ids: Sequence[SampleId] | None = None,
    seed: int = 0,
) -> Probe:
    """Fit a linear head to labelled features.

    It is a logistic regression to its minimum. How much it is regularised, and the temperature
    that makes its probabilities mean what they say, are those with the least loss on labels that
    were left out in turns: five folds, three above 500 labels; above 2,000 labels a part of that
    many decides.

    Args:
        rows: Features [N, D].
        labels: Class numbers [N].
        classes: How many classes there are; by default those up to the highest number.
        ids: The samples' names [N], which decide the folds; by default the index.
        seed: Of the folds.

    Raises:
        InputError: If there are not two classes to tell apart, or lengths differ.
        NonFiniteError: If a feature is NaN or infinite.
    """
    x, y, count = _checked(rows, labels, classes)
    names = range(len(y)) if ids is None else ids
    if len(names) != len(y):
        raise InputError(f"{len(names)} ids for {len(y)} labels: one id each")
    # Rows in an order of their ids' own, so that sums do not depend on how they were given.
    order = np.array(sorted(range(len(y)), key=lambda i: (str(type(names[i])), names[i])))
    x, y, names = x[order], y[order], [names[i] for i in order]
    made = Coordinates.of(x)
    variance, temperature, accuracy, loss = _validate(made.rows, y, count, names, seed)
    everyone = np.ones((1, len(y)), dtype=bool)
    near = solve_parts(made.rows, y, count, variance, everyone, tolerance=_ROUGHLY, single=True)
    solution = solve(made.rows, y, count, variance, start=near[0])
    report = ProbeReport(len(y), variance, temperature, accuracy, loss)
    probe = Probe(x.shape[1], count, report)
    with torch.no_grad():
        probe.mean.copy_(torch.from_numpy(made.mean))
        probe.scale.fill_(made.scale)
        probe.head.weight.copy_(torch.from_numpy(made.weights(solution) / temperature))
        probe.head.bias.copy_(torch.from_numpy(solution.biases / temperature))
    return probe.eval()


def held_out_probabilities(
    rows: Tensor,
    labels: Sequence[int] | Tensor,
    probe: Probe,
    *,
    ids: Sequence[SampleId] | None = None,
    seed: int = 0,
) -> Tensor:
    """Return the cross-validated predictions of probes [N, C].

    Each fold is judged by a probe on the others, with the regularisation and the temperature of
    the probe on all of them.

    Args:
        rows: Features [N, D].
        labels: Class numbers [N].
        probe: Fitted to them by ``fit_probe``.
        ids: The samples' names [N], which decide the folds; by default the index.
        seed: Of the folds.

    Raises:
        InputError: If the probe was not fitted, or lengths differ.
    """
    x, y, count = _checked(rows, labels, probe.head.out_features)
    if probe.report is None:
        raise InputError("the probe has no report: fit it by fit_probe")
    names = range(len(y)) if ids is None else ids
    made = Coordinates.of(x)
    folds = min(_FOLDS if len(y) <= _MANY else _FEW_FOLDS, len(y))
    learnt = deal_folds(y, names, folds, seed) != np.arange(folds)[:, None]
    solutions = solve_parts(
        made.rows, y, count, probe.report.variance, learnt, tolerance=_ROUGHLY, single=True
    )
    logits = np.empty((len(y), count))
    for out, solution in zip(~learnt, solutions, strict=True):
        logits[out] = solution.logits(made.rows[out])
    return (torch.from_numpy(logits) / probe.report.temperature).softmax(1)


def _checked(
    rows: Tensor, labels: Sequence[int] | Tensor, classes: int | None
) -> tuple[Floats, Integers, int]:
    x = rows.detach().cpu().double().numpy()
    y = np.asarray(labels, dtype=np.int64)
    if x.ndim != 2 or y.ndim != 1 or len(x) != len(y):
        raise InputError(
            f"features {list(x.shape)} and labels {list(y.shape)} do not fit: give [N, D] and [N]"
        )
    if not bool(np.isfinite(x).all()):
        raise NonFiniteError("a feature is NaN or infinite: look at the backbone's weights")
    if len(set(y.tolist())) < 2:
        raise InputError("a probe needs labels of at least two classes: label a few more samples")
    count = int(y.max()) + 1 if classes is None else classes
    if int(y.min()) < 0 or int(y.max()) >= count:
        raise InputError(f"labels must be numbers from 0 to {count - 1}")
    return x, y, count


def _validate(
    x: Floats, y: Integers, classes: int, ids: Sequence[SampleId], seed: int
) -> tuple[float, float, float, float]:
    """Return the best variance with its temperature, held-out accuracy and loss."""
    if len(y) > _MOST_VALIDATED:
        part = draw_part(y, ids, _MOST_VALIDATED, seed)
        x, y, ids = x[part], y[part], [ids[i] for i in part]
    folds = min(_FOLDS if len(y) <= _MANY else _FEW_FOLDS, len(y))
    dealt = deal_folds(y, ids, folds, seed)
    learnt = dealt != np.arange(folds)[:, None]
    starts: list[Solution] | None = None
    # As if one more sample had been missed: with ten labels that are all recognised, nothing else
    # would keep the probabilities from certainty.
    doubt = 1 / (len(y) + 2)
    found: list[tuple[float, float, float, Floats]] = []
    for variance in VARIANCES:
        starts = solve_parts(
            x, y, classes, variance, learnt, starts=starts, tolerance=_ROUGHLY, single=True
        )
        logits = np.empty((len(y), classes))
        for out, solution in zip(~learnt, starts, strict=True):
            logits[out] = solution.logits(x[out])
        temperature = best_temperature(logits, y, doubt)
        loss = log_loss(logits, y, temperature, doubt)
        found.append((loss, variance, temperature, logits))
        # The weaker the prior, the longer it takes: once it got worse twice, that is enough.
        if len(found) > 2 and found[-1][0] > found[-2][0] > found[-3][0]:
            break
    # Of equals the one that is regularised more.
    _, variance, temperature, logits = min(found, key=lambda one: one[:2])
    right = float((logits.argmax(axis=1) == y).mean())
    return variance, temperature, right, log_loss(logits, y, temperature)


def deal_folds(y: Integers, ids: Sequence[SampleId], folds: int, seed: int) -> Integers:
    """Return the fold of each sample [N]; each class is spread over as many as it can be.

    Args:
        y: Classes [N].
        ids: Decide the draws, with the seed.
        folds: How many.
        seed: Of the draws.
    """
    draws = keyed_uniform(seed, "folds of a probe", ids)[:, 0]
    dealt = np.empty(len(y), dtype=np.int64)
    # Class after class, so that no fold gets all the remainders.
    dealt[np.lexsort((draws, y))] = np.arange(len(y)) % folds
    return dealt


def draw_part(y: Integers, ids: Sequence[SampleId], count: int, seed: int) -> Integers:
    """Return positions of about so many samples, of each class in its share, sorted."""
    parts = -(-len(y) // count)
    return np.flatnonzero(deal_folds(y, ids, parts, seed) == 0)


_TINY = 1e-10


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Centred and scaled rows, on axes that span them.

    The weights of a regularised head are combinations of the rows: N rows of D features are as
    good as N rows of N coordinates, whatever D is. Nothing is lost.

    Attributes:
        mean: Of the rows [D].
        scale: The root mean square length of the centred rows.
        rows: Coordinates [N, R].
        axes: Unit vectors [R, D]; None where rows have no more features than there are rows.
    """

    mean: Floats
    scale: float
    rows: Floats
    axes: Floats | None

    @classmethod
    def of(cls, features: Floats) -> Coordinates:
        """Find the coordinates of rows [N, D]."""
        mean = features.mean(axis=0)
        centred = features - mean
        scale = float(np.sqrt(np.square(centred).sum(axis=1).mean())) or 1.0
        centred /= scale
        if len(centred) > centred.shape[1]:
            return cls(mean, scale, centred, None)
        squares, vectors = np.linalg.eigh(centred @ centred.T)
        kept = squares > _TINY * max(float(squares[-1]), _TINY)
        lengths = np.sqrt(squares[kept])
        vectors = vectors[:, kept]
        return cls(mean, scale, vectors * lengths, (vectors / lengths).T @ centred)

    def weights(self, solution: Solution) -> Floats:
        """Return the weights [C, D] for centred and scaled rows."""
        return solution.weights if self.axes is None else solution.weights @ self.axes
