"""Herding: coverage of the candidates, each with a weight."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from steepest.errors import InputError
from steepest.strategies.algorithms.coverage import greedy_coverage, median_square
from steepest.strategies.base import Needs, Strategy
from steepest.strategies.batch import Batch
from steepest.strategies.choice import Choice
from steepest.strategies.feature_rows import finite_rows, labelled_rows
from steepest.strategies.view import PoolView

WITNESSES = 50_000
"""Up to so many candidates the sum is over all of them."""


@dataclass(frozen=True)
class Herding(Strategy):
    """Samples near as much weight as possible; a subclass says what the weight is.

    Attributes:
        reach: How many times its share of the candidates each label stands for.
        witnesses: The sum is over so many candidates at most, a random part of them; all can be
            chosen.
    """

    reach: float = 1.0
    witnesses: int = WITNESSES

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.reach <= 1e6:
            raise InputError(
                f"{self.name}: reach must be above 0 and at most 1e6, not {self.reach}"
            )
        if self.witnesses < 1:
            raise InputError(f"{self.name}: witnesses must be at least 1, not {self.witnesses}")

    @property
    def needs(self) -> Needs:
        """Features of candidates and labelled samples, and the logits that weights come from."""
        return Needs.LOGITS | Needs.FEATURES | Needs.LABELLED

    @abstractmethod
    def weigh(self, batch: Batch) -> Tensor:
        """Return the weight of each sample [N]."""

    def shape(self, weights: Tensor) -> Tensor:
        """Return weights [N] as they are summed: none below 0, with a mean of 1."""
        return standard_weights(weights)

    def choose(self, pool: PoolView, k: int) -> Choice:
        """Return k samples, the one that covers most first."""
        found = pool.collect(self._measure, f"features for {self.name}")
        rows = finite_rows(found["features"], pool.ids)
        weights = self.shape(finite_rows(found["weights"][:, None], pool.ids)[:, 0])
        known = labelled_rows(pool, self.name, rows)
        return herd(pool, rows, weights, k, known, reach=self.reach, witnesses=self.witnesses)

    def check(self, pool: PoolView) -> None:
        """Measure a few samples, so that errors come early."""
        pool.collect(self._measure, f"trying {self.name}")

    def _measure(self, batch: Batch) -> Mapping[str, Tensor]:
        weights = self.weigh(batch).double()
        return {"weights": weights, "features": batch.features}


def herd(
    pool: PoolView,
    rows: Tensor,
    weights: Tensor,
    k: int,
    known: Tensor | None,
    *,
    reach: float,
    witnesses: int,
) -> Choice:
    """Choose k candidates by greedy coverage.

    Args:
        pool: The candidates, in their own order that the seed and their ids decide.
        rows: Their features [N, D]; written over.
        weights: The value of covering each [N].
        k: How many to choose.
        known: Features of labelled samples [N_L, D]; None if there are none.
        reach: How many times its share of the candidates each label stands for.
        witnesses: The sum is over so many candidates at most.
    """
    places = _place(rows).to(pool.device)
    centres = None if known is None else _place(known).to(pool.device)
    labels = k + (0 if centres is None else len(centres))
    width = median_square(places, max(1, round(reach * len(rows) / labels)))
    cover = greedy_coverage(
        places, weights, k, width, centres=centres, witnesses=witnesses, progress=pool.progress
    )
    return Choice(cover.positions, cover.scores)


def standard_weights(weights: Tensor, power: float = 1.0) -> Tensor:
    """Return weights [N] of mean 1, none below 0; those that are all equal count as 1.

    Args:
        weights: Those that can be negative, such as margins, are counted from the lowest.
        power: Their exponent.
    """
    lowest = float(weights.min())
    weights = weights - lowest if lowest < 0 else weights
    highest = float(weights.max())
    if highest <= 0:
        return torch.ones_like(weights)
    # The highest at 1 first: the sum of the largest numbers is infinite.
    shares = (weights / highest) ** power
    return shares / shares.mean()


def _place(rows: Tensor) -> Tensor:
    """Bring features to length 1 [N, D]; those of zero stay where they are."""
    largest = rows.abs().amax(1, keepdim=True)
    return F.normalize(rows / largest.where(largest > 0, torch.ones_like(largest)), dim=1)
