"""Stochastic batches: a random draw by any score (Kirsch and others, 2023)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from steepest.errors import InputError
from steepest.strategies.algorithms.stochastic import Kind, perturb
from steepest.strategies.base import STRATEGIES, Needs, Scorer, Strategy, create, strategy
from steepest.strategies.batch import Batch
from steepest.strategies.view import PoolView

if TYPE_CHECKING:
    from steepest.training.auxiliary_head import Extra


@strategy("stochastic")
@dataclass(frozen=True)
class Stochastic(Scorer):
    """Another strategy's score with noise, for diversity: score(x) = log s(x) + G(id) / β.

    The best k of a batch by score alone are often near-copies. With Gumbel noise G, keyed by the
    sample's id, the best k are a draw without replacement, with chances ∝ s^β. That is
    ``"power"``; ``"softmax"`` is s + G/β, with chances ∝ exp(β s), and ``"softrank"`` is
    −log rank + G/β, with chances ∝ rank^(−β).

    For ``"power"`` scores of zero or less count as the smallest normal number: they come last.

    Attributes:
        of: The strategy whose score s is meant: any that gives every sample one.
        of_options: The options of that strategy.
        kind: The value to which the noise is added.
        beta: How much the score counts: large is the plain top k, small an even draw.
    """

    of: str = "entropy-gradnorm"
    of_options: Mapping[str, Any] = field(default_factory=dict)
    kind: Kind = "power"
    beta: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (1e-9 <= self.beta <= 1e9 and math.isfinite(self.beta)):
            raise InputError(f"stochastic: beta must be between 1e-9 and 1e9, not {self.beta}")
        _ = self.scorer  # Made here, so that its errors are raised early.

    @cached_property
    def scorer(self) -> Scorer:
        """The strategy that scores."""
        kind = STRATEGIES.get(self.of)
        if not issubclass(kind, Scorer) or issubclass(kind, Stochastic):
            raise InputError(
                f"stochastic needs a strategy that scores each sample alone, not {self.of!r}: use "
                "'entropy', 'margin' or 'entropy-gradnorm'"
            )
        made = create(self.of, self.of_options)
        if not isinstance(made, Scorer):
            raise InputError(f"{self.of!r} gives samples no score each")
        return made

    def score(self, batch: Batch) -> Tensor:
        """Return perturbed scores [N]; ranks are those within the batch."""
        values = self.scorer.score(batch).detach().double().cpu().numpy()
        return torch.from_numpy(perturb(values, batch.ids, self.kind, self.beta, batch.seed))

    def score_all(self, pool: PoolView) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return the perturbed scores of all samples of a pool [N]."""
        return perturb(self.scorer.score_all(pool), pool.ids, self.kind, self.beta, pool.seed)

    def prepare(self, pool: PoolView) -> Any:  # noqa: ANN401
        """Train the auxiliary models of the wrapped strategy."""
        return self.scorer.prepare(pool)

    def check(self, pool: PoolView) -> None:
        """Refuse what the wrapped strategy refuses, and scores that the noise has no use for."""
        self.scorer.check(pool)
        # Before a run begins there is nothing trained that others could score with.
        if type(self.scorer).prepare is Strategy.prepare:
            self.score_all(pool)

    @property
    def needs(self) -> Needs:
        """The needs of the wrapped strategy."""
        return self.scorer.needs

    @property
    def needs_alone(self) -> Needs:
        """The needs of the wrapped strategy if nothing was trained along."""
        return self.scorer.needs_alone

    @property
    def dense(self) -> bool:
        """Whether the wrapped strategy is defined for samples with many labels."""
        return self.scorer.dense

    @property
    def members(self) -> int:
        """The number of models in the wrapped strategy's committee."""
        return self.scorer.members

    def model_options(self) -> Mapping[str, Any]:
        """Return the model options that the wrapped strategy requires."""
        return self.scorer.model_options()

    def make_extra(self, model: nn.Module, images: Tensor, seed: int) -> Extra | None:
        """Make the modules that the wrapped strategy trains along with the model."""
        return self.scorer.make_extra(model, images, seed)
