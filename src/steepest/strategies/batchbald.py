"""BALD of a whole batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from steepest.errors import InputError, NonFiniteError
from steepest.strategies.algorithms.joint_entropy import choose_jointly
from steepest.strategies.base import strategy
from steepest.strategies.batch import Batch
from steepest.strategies.choice import Choice, in_order
from steepest.strategies.dropout_strategy import DropoutStrategy
from steepest.strategies.view import PoolView

_LIMIT_NUMBERS = 1 << 28
"""Of all log-probabilities of the pool: 2 GB."""


@strategy("batchbald")
@dataclass(frozen=True)
class Batchbald(DropoutStrategy):
    """Mutual information of all labels and the network: I(y_1 … y_k; network), greedily.

    Each step takes the sample that adds most to those before, H(y_x | y_S) − mean_t H(p_t(x)), and
    that gain is its score. The first is the sample of the highest BALD; a copy of it adds less
    than it did. Joint entropies are exact while the C^|S| label configurations are few, then they
    are estimated from random ones. It is a method for small batches of small pools: beyond some
    dozens of samples the estimate saturates.

    Attributes:
        draws: Thinned networks T; the same ones for all samples.
        placement: Where the models of an experiment drop activations, in training too: before
            the last layer, in every block, or as the model's own options say.
        rate: How likely they do; 0.5 for the head and 0.3 for blocks if None.
        configurations: Label configurations that are followed at most.
        limit: The largest k that is not refused.
        pool_limit: The most candidates that are not refused on a CPU.
    """

    dense: ClassVar[bool] = False

    configurations: int = 10_000
    limit: int = 100
    pool_limit: int = 20_000

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.configurations, self.limit, self.pool_limit) < 1:
            raise InputError("batchbald: configurations, limit and pool_limit must be at least 1")

    def check_k(self, k: int) -> None:
        """Refuse batches that joint entropies cannot be had for in reasonable time.

        Raises:
            InputError: Naming what is for large batches.
        """
        if k > self.limit:
            raise InputError(
                f"batchbald is for small batches, and k = {k} is above limit = {self.limit}: use "
                "'stochastic' with of=bald, or 'bald'"
            )

    def choose(self, pool: PoolView, k: int) -> Choice:
        """Return k samples, each for what it adds to those before.

        Raises:
            InputError: If k or the pool is too large.
            NonFiniteError: Naming a sample whose prediction is not finite.
        """
        if len(pool) > self.pool_limit and pool.device.type == "cpu":
            raise InputError(
                f"batchbald is for small pools, and {len(pool)} candidates are above pool_limit = "
                f"{self.pool_limit} for a CPU: set a subset, or use 'stochastic' with of=bald"
            )
        samples = len(pool)
        found = pool.collect(lambda batch: self._log_p(batch, samples), "asking thinned networks")
        log_p = found["rows"]
        finite = log_p.flatten(1).isfinite().all(1)
        if not bool(finite.all()):
            first = pool.ids[int((~finite).nonzero()[0])]
            raise NonFiniteError(
                f"a prediction of sample {first!r} is NaN or infinite: look at the model's weights "
                "and at that sample"
            )
        return in_order(
            *choose_jointly(
                log_p.to(pool.device), k, configurations=self.configurations, seed=pool.seed
            )
        )

    def _log_p(self, batch: Batch, samples: int) -> Tensor:
        """Return log-probabilities by network [N, T, C]."""
        self.check_positions(batch.logits)
        classes = batch.logits.shape[1]
        if samples * self.draws * classes > _LIMIT_NUMBERS:
            raise InputError(
                f"batchbald keeps {self.draws} predictions of {classes} classes for each of "
                f"{samples} samples, which is too much: set a subset, or use 'bald'"
            )
        draws = [logits.double().log_softmax(1) for logits in batch.draws(self.draws)]
        return torch.stack(draws, dim=1)
