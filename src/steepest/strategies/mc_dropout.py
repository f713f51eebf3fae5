"""Uncertainty by Monte Carlo dropout."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from torch import Tensor

from steepest.strategies.base import Scorer, strategy
from steepest.strategies.batch import Batch
from steepest.strategies.disagreement import Measure, disagreement
from steepest.strategies.dropout_strategy import DropoutStrategy

_MEASURES: MappingProxyType[str, Measure] = MappingProxyType(
    {
        "entropy": "mean-entropy",
        "bald": "mutual-information",
        "variation-ratio": "variation-ratio",
        "mean-std": "mean-std",
    }
)


@strategy("mc-dropout")
@dataclass(frozen=True)
class McDropout(DropoutStrategy, Scorer):
    """Uncertainty of thinned networks: score(x) = H(p̄), p̄ = mean_t p_t.

    p_t is the prediction of the t-th thinned network: the same network for every sample.
    Probabilities are averaged, and normalisation keeps its statistics; some public versions
    average logits, or run a model without dropout in training mode, where nothing but batch
    statistics varies. For dense outputs the mean over positions.

    Attributes:
        draws: Thinned networks T. Where dropout is in the head alone the backbone runs once.
        placement: Where the models of an experiment drop activations, in training too: before
            the last layer, in every block, or as the model's own options say.
        rate: How likely they do; 0.5 for the head and 0.3 for blocks if None.
        measure: ``"entropy"``; ``"bald"``, H(p̄) − mean_t H(p_t); ``"variation-ratio"``, 1 − f/T
            for the f networks that agree on the most common class, ties ranked by entropy, a
            hundredth of a vote; or ``"mean-std"``, the mean over classes of the standard deviation
            of p_t.
    """

    measure: Literal["entropy", "bald", "variation-ratio", "mean-std"] = "entropy"

    def score(self, batch: Batch) -> Tensor:
        """Return the measure of each sample [N]."""
        return disagreement(batch.draws(self.draws), _MEASURES[self.measure])
