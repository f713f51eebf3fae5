"""Uncertainty Herding: coverage weighted by margins at a temperature (W. Bae and others, 2025)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from steepest.errors import InputError
from steepest.strategies.base import Needs, strategy
from steepest.strategies.batch import Batch
from steepest.strategies.choice import Choice
from steepest.strategies.feature_rows import feature_rows
from steepest.strategies.herding import Herding
from steepest.strategies.temperature import best_temperature, held_out_logits
from steepest.strategies.view import PoolView

_FEWEST = 10


@strategy("uncertainty-herding")
@dataclass(frozen=True)
class UncertaintyHerding(Herding):
    """Samples near small margins that no label is near yet.

    With features z of length 1, candidates U, labelled or chosen samples S and predictions p at a
    temperature T, softmax(logits / T), each choice is the largest gain of

        Σ_{x ∈ U} (1 − p_(1) + p_(2)) · max_{s ∈ S} exp(−‖z(x) − z(s)‖² / 2σ²)

    where σ² is the median squared distance of a candidate to its m-th nearest, m = reach · |U| /
    (labels, the new ones included).

    Attributes:
        reach: How many times its share of the candidates each label stands for.
        witnesses: The sum is over so many candidates at most, a random part of them; all can be
            chosen.
        temperature: T, or ``"auto"``: that at which the labels are likeliest for a linear head on
            the features, in a cross-validation on the labelled samples; 1 where fewer than 10 have
            a class that is known.
    """

    temperature: float | Literal["auto"] = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.temperature != "auto" and not (
            self.temperature > 0 and math.isfinite(self.temperature)
        ):
            raise InputError(
                "uncertainty-herding: temperature must be 'auto' or above 0, not "
                f"{self.temperature}"
            )

    @property
    def needs(self) -> Needs:
        """Features, logits, labelled samples, and for a temperature their classes."""
        return super().needs | (Needs.TARGETS if self.temperature == "auto" else Needs.NOTHING)

    def choose(self, pool: PoolView, k: int) -> Choice:
        """Return k samples, the one that covers most first."""
        if self.temperature != "auto":
            return super().choose(pool, k)
        return replace(self, temperature=label_temperature(pool, self.name)).choose(pool, k)

    def weigh(self, batch: Batch) -> Tensor:
        """Return 1 − p_(1) + p_(2) [N]; for dense outputs the mean over positions."""
        temperature = 1.0 if self.temperature == "auto" else self.temperature
        top = (batch.logits.double() / temperature).softmax(1).topk(2, dim=1).values
        return (1 - top[:, 0] + top[:, 1]).reshape(len(batch), -1).mean(1)


def label_temperature(pool: PoolView, strategy: str) -> float:
    """Return the temperature at which the labels are likeliest for a head on the features.

    Args:
        pool: The candidates; classes come from its labelled samples.
        strategy: Its name, for the progress that is shown.

    Returns:
        1 where fewer than 10 labelled samples have one class each that is known.
    """
    known = pool.labelled
    targets = None if known is None else known.targets
    if known is None or targets is None or len(known) < _FEWEST:
        return 1.0
    if targets.ndim != 1 or targets.dtype.is_floating_point or targets.dtype == torch.bool:
        return 1.0
    rows, targets = feature_rows(known, strategy), targets.long()
    classes = int(targets.max()) + 1
    return best_temperature(held_out_logits(rows, targets, classes, pool.seed), targets)
