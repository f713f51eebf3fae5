"""Bayesian active learning by disagreement."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from steepest.strategies.base import Scorer, strategy
from steepest.strategies.batch import Batch
from steepest.strategies.disagreement import disagreement
from steepest.strategies.dropout_strategy import DropoutStrategy


@strategy("bald")
@dataclass(frozen=True)
class Bald(DropoutStrategy, Scorer):
    """Mutual information of label and network: score(x) = H(p̄) − mean_t H(p_t), p̄ = mean_t p_t.

    p_t is the prediction of the t-th thinned network. The score is the mutual information of
    label and network: high where networks are sure and contradict each other, low where all of
    them are unsure. It lies between 0 and min(log T, log C). For dense outputs the mean over
    positions.

    Attributes:
        draws: Thinned networks T. Where dropout is in the head alone the backbone runs once.
        placement: Where the models of an experiment drop activations, in training too: before
            the last layer, in every block, or as the model's own options say.
        rate: How likely they do; 0.5 for the head and 0.3 for blocks if None.
    """

    def score(self, batch: Batch) -> Tensor:
        """Return mutual information [N]."""
        return disagreement(batch.draws(self.draws), "mutual-information")
