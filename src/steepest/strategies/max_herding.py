"""MaxHerding: coverage of the candidates, all worth the same (W. Bae and others, 2024)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from steepest.strategies.base import Needs, strategy
from steepest.strategies.batch import Batch
from steepest.strategies.herding import Herding


@strategy("max-herding")
@dataclass(frozen=True)
class MaxHerding(Herding):
    """Samples that lie near as many candidates as possible that no label is near yet.

    With features z of length 1, candidates U and labelled or chosen samples S, each choice is the
    largest gain of

        Σ_{x ∈ U} max_{s ∈ S} exp(−‖z(x) − z(s)‖² / 2σ²)

    where σ² is the median squared distance of a candidate to its m-th nearest, m = reach · |U| /
    (labels, the new ones included). Predictions play no part.

    Attributes:
        reach: How many times its share of the candidates each label stands for.
        witnesses: The sum is over so many candidates at most, a random part of them; all can be
            chosen.
    """

    @property
    def needs(self) -> Needs:
        """Features of candidates and labelled samples."""
        return Needs.FEATURES | Needs.LABELLED

    def weigh(self, batch: Batch) -> Tensor:
        """Return ones [N]."""
        return torch.ones(len(batch))
