"""The default: typical samples while labels are few, an experimental design once they are many."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from steepest.core.wording import counted
from steepest.errors import InputError, ModelError
from steepest.strategies.base import Needs, Strategy, strategy
from steepest.strategies.batch import Batch
from steepest.strategies.choice import Choice
from steepest.strategies.feature_rows import check_width, finite_rows
from steepest.strategies.gradnorm_design import design
from steepest.strategies.gradnorm_herding import impurity
from steepest.strategies.herding import WITNESSES, herd, standard_weights
from steepest.strategies.view import PoolView


@strategy("steepest")
@dataclass(frozen=True)
class Steepest(Strategy):
    """Typical samples weighted by gradient norm while labels are few, a design once they are many.

    With m labels a class, k candidates are chosen by two greedy sums one after the other: the
    first (1 − t) k by ``gradnorm-herding``, the other t k by ``gradnorm-design``, for which those
    before them count as labelled, with

        t = log(m / few) / log(many / few), between 0 and 1

    Attributes:
        few: Up to this many labels per class, all samples are chosen by herding.
        many: From this many labels per class on, all are chosen by design.
    """

    does_without_features: ClassVar[bool] = True

    few: float = 8.0
    many: float = 40.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (0 < self.few < self.many < math.inf):
            raise InputError(
                f"steepest: few and many must be numbers above 0, few the smaller one, not "
                f"{self.few} and {self.many}"
            )

    @property
    def needs(self) -> Needs:
        """Features and logits of candidates and labelled samples."""
        return Needs.LOGITS | Needs.FEATURES | Needs.LABELLED

    def share_of_design(self, labels: int, classes: int) -> float:
        """Return t, the share of the choice that is made by design.

        Args:
            labels: How many samples are labelled.
            classes: Number of classes.
        """
        if labels < 1:
            return 0.0
        t = math.log(labels / classes / self.few) / math.log(self.many / self.few)
        return min(1.0, max(0.0, t))

    def choose(self, pool: PoolView, k: int) -> Choice:
        """Return k samples: those of the herding first."""
        samples = _measure_pool(pool, self.name)
        known = None
        if pool.labelled is not None and len(pool.labelled):
            known = _measure_pool(pool.labelled, self.name)
            check_width(known.rows, samples.rows, self.name)
        labels = 0 if known is None else len(known.rows)
        last = round(self.share_of_design(labels, max(2, pool.classes)) * k)
        first = k - last
        parts = []
        if first:
            parts.append(_herd(pool, samples, known, first, k))
        if last:
            parts.append(_design(pool, samples, known, parts[0] if first else None, last))
        positions = np.concatenate([part.positions for part in parts])
        scores = np.concatenate([part.scores for part in parts])
        said = _describe(first, last, labels, max(2, pool.classes), float(samples.sureness.mean()))
        return Choice(positions, scores, said=said)

    def check(self, pool: PoolView) -> None:
        """Measure a few samples, so that errors come early."""
        pool.collect(_measure, f"trying {self.name}")


@dataclass(frozen=True, eq=False)
class _Samples:
    """Features [N, D], 1 − Σ p² [N] and the probability of the likeliest class [N]."""

    rows: Tensor
    impurities: Tensor
    sureness: Tensor


def _measure_pool(pool: PoolView, strategy: str) -> _Samples:
    found = pool.collect(_measure, f"features for {strategy}")
    numbers = finite_rows(torch.stack([found["impurities"], found["sureness"]], 1), pool.ids)
    return _Samples(finite_rows(found["features"], pool.ids), numbers[:, 0], numbers[:, 1])


def _measure(batch: Batch) -> Mapping[str, Tensor]:
    p = batch.logits.double().softmax(1)
    try:
        features = batch.features
    except ModelError:
        # Of a model that has no last layer the predictions have to do.
        features = p.reshape(len(p), p.shape[1], -1).mean(2)
    sureness = p.amax(1).reshape(len(batch), -1).mean(1)
    return {"impurities": impurity(batch), "sureness": sureness, "features": features}


def _herd(pool: PoolView, samples: _Samples, known: _Samples | None, count: int, k: int) -> Choice:
    labels = 0 if known is None else len(known.rows)
    norms = (samples.impurities * (samples.rows.double().square().sum(1) + 1)).sqrt()
    return herd(
        pool,
        samples.rows,
        standard_weights(norms),
        count,
        None if known is None else known.rows.to(samples.rows),
        # Kernels as wide as if all k were chosen so.
        reach=(labels + count) / (labels + k),
        witnesses=WITNESSES,
    )


def _design(
    pool: PoolView, samples: _Samples, known: _Samples | None, before: Choice | None, count: int
) -> Choice:
    """Choose the remaining samples by design."""
    taken = np.zeros(len(samples.rows), dtype=bool)
    if before is not None:
        taken[before.positions] = True
    chosen = torch.from_numpy(np.flatnonzero(taken))
    parts = [(samples.rows[chosen], samples.impurities[chosen])]
    if known is not None:
        parts.append((known.rows.to(samples.rows), known.impurities))
    return design(
        pool,
        samples.rows,
        samples.impurities,
        count,
        torch.cat([rows for rows, _ in parts]),
        torch.cat([weights for _, weights in parts]),
        prior=1.0,
        taken=taken,
    )


def _describe(first: int, last: int, labels: int, classes: int, sureness: float) -> str:
    """Describe the choice and its reason in a sentence."""
    if labels == 0:
        why = "No labelled samples were named"
    else:
        each = labels / classes
        shown = f"{each:.0f}" if each >= 10 else f"{each:.2g}"
        amount = "Few" if not last else "Many" if not first else "Some"
        why = f"{amount} labels ({shown} a class, predictions {sureness:.0%} sure on average)"
    herding = "typical samples weighted by gradient norm"
    design = "that lower the expected loss over the pool most"
    if not last:
        return f"{why}: {herding}."
    if not first:
        return f"{why}: samples {design}."
    return f"{why}: {counted(first, 'pick')} are {herding}, {last} are samples {design}."
