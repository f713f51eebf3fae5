"""Gradient norms spread over the feature space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from steepest.core.seeds import generator
from steepest.errors import InputError
from steepest.strategies.algorithms.d2_sampling import d2_sample
from steepest.strategies.algorithms.distances import tiles
from steepest.strategies.algorithms.k_centre import k_centre
from steepest.strategies.base import Needs, Scorer, Strategy, create, strategy
from steepest.strategies.batch import Batch
from steepest.strategies.choice import Choice
from steepest.strategies.feature_rows import finite_rows
from steepest.strategies.view import PoolView

Criterion = Literal["entropy", "fisher", "egl", "expected"]
Method = Literal["d2", "k-centre"]

_SCORERS: dict[Criterion, str] = {
    "entropy": "entropy-gradnorm",
    "fisher": "fisher-gradnorm",
    "egl": "egl",
    "expected": "expected-gradnorm",
}


@strategy("gradnorm-spread")
@dataclass(frozen=True)
class GradnormSpread(Strategy):
    """Samples of high gradient norm that lie in different directions of the feature space.

    Each sample is placed at v(x) = g(x)^power · z(x)/‖z(x)‖, with the feature z and the gradient
    norm g over the whole network, as a share of the largest in the pool. Two samples are far apart
    if their norms are high and their features differ. They are picked one after another:

        score(x) = distance of v(x) to the nearest one picked before

    The first is the one of the highest norm. Labelled samples are not used as centres: training
    has left them with norms near zero, so that all lie near the origin.

    Attributes:
        criterion: The gradient norm: that of ``entropy-gradnorm``, ``fisher-gradnorm``, ``egl``
            or ``expected-gradnorm``.
        criterion_options: The options of that strategy.
        method: ``"d2"`` draws with chances ∝ distance²; ``"k-centre"`` takes the farthest, which
            is the more drawn to outliers.
        power: How much the norm counts; at 0 directions alone do.
    """

    needs: ClassVar[Needs] = Needs.GRADIENTS | Needs.FEATURES

    criterion: Criterion = "entropy"
    criterion_options: Mapping[str, Any] = field(default_factory=dict)
    method: Method = "d2"
    power: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.power <= 100:
            raise InputError(f"gradnorm-spread: power must be between 0 and 100, not {self.power}")
        _ = self.scorer

    @cached_property
    def scorer(self) -> Scorer:
        """The strategy that measures the norms."""
        made = create(_SCORERS[self.criterion], self.criterion_options)
        if not isinstance(made, Scorer):
            raise InputError(f"{made.name} gives samples no score each")
        return made

    def choose(self, pool: PoolView, k: int) -> Choice:
        """Return k samples in the order in which they were picked."""
        found = pool.collect(self._measure, f"gradients and features for {self.name}")
        norms = finite_rows(found["norms"][:, None], pool.ids).double()
        # Only ratios count: the largest norm at 1 keeps powers from running out of numbers.
        weights = (norms / norms.max().clamp_min(torch.finfo(torch.float64).tiny)) ** self.power
        places = _directions(finite_rows(found["features"], pool.ids))
        places = places.mul_(weights.to(places)).to(pool.device)
        if self.method == "d2":
            picks = d2_sample(places, k, generator(pool.seed, self.name), progress=pool.progress)
        else:
            picks = k_centre(
                places, k, centres=torch.zeros_like(places[:1]), progress=pool.progress
            )
        return Choice(picks.positions, picks.scores)

    def check(self, pool: PoolView) -> None:
        """Measure a few samples, so that errors come early."""
        pool.collect(self._measure, f"trying {self.name}")

    def _measure(self, batch: Batch) -> dict[str, Tensor]:
        norms = self.scorer.score(batch)
        return {"norms": norms.double(), "features": batch.features}


def _directions(features: Tensor) -> Tensor:
    """Bring features to length 1 [N, D], in their place; those of zero stay as they are."""
    for rows in tiles(len(features), features[:1].nbytes):
        part = features[rows]
        largest = part.abs().amax(1, keepdim=True)
        part.div_(largest.where(largest > 0, torch.ones_like(largest)))
        part.copy_(F.normalize(part, dim=1))
    return features
