"""Temporal output discrepancy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from steepest.core.seeds import keyed_uniform
from steepest.errors import InputError
from steepest.modules.losses import entropy
from steepest.strategies.auxiliary_predictions import placed, predict
from steepest.strategies.base import Needs, Scorer, Strategy, strategy
from steepest.strategies.batch import Batch
from steepest.strategies.view import PoolView


class _Past(NamedTuple):
    """The model to compare with, and whether it has learnt anything."""

    model: nn.Module
    trained: bool


@strategy("tod")
@dataclass(frozen=True)
class Tod(Scorer):
    """Change of the prediction since the last cycle: score(x) = ½ Σ_c (p_c − p_c^prev)².

    p^prev is the prediction of the model that the cycle before ended with. For dense outputs the
    mean over positions.

    Attributes:
        first: What to choose by in the first cycle, when there is no model before:
            ``"entropy"``; ``"random"``; or ``"published"``, the *smallest* difference from an
            untrained net, as in the authors' code. An untrained net is close to uniform for all
            samples, so that its smallest differences are a noisy form of the highest entropies.
    """

    needs: ClassVar[Needs] = Needs.LOGITS | Needs.PREVIOUS

    first: Literal["entropy", "random", "published"] = "entropy"

    def prepare(self, pool: PoolView) -> _Past:
        """Return the model to compare with, where the present one is.

        Raises:
            InputError: If there is none.
        """
        before, untrained = pool.support.previous, pool.support.untrained
        past = untrained if before is None else before
        if past is None:
            raise InputError(
                "tod compares with the model of the cycle before: give its weights by --previous "
                "FILE, or in Python support=Support(previous=model), or Support(untrained=model) "
                "in the first cycle"
            )
        return _Past(placed(past, pool.device), trained=before is not None)

    def check(self, pool: PoolView) -> None:
        """Look at what the model makes of a few samples; there is no model before it yet."""
        Strategy.check(self, pool)

    def score(self, batch: Batch) -> Tensor:
        """Return discrepancies [N]; in the first cycle what is taken in their place."""
        past: _Past = batch.prepared
        if past.trained:
            return _discrepancy(batch, past.model, "the model of the cycle before")
        if self.first == "published":
            return -_discrepancy(batch, past.model, "the untrained model")
        if self.first == "random":
            return torch.from_numpy(keyed_uniform(batch.seed, "random strategy", batch.ids)[:, 0])
        return entropy(batch.logits)


def _discrepancy(batch: Batch, model: nn.Module, what: str) -> Tensor:
    """Return ½ ‖p − p^other‖², the mean over positions [N]."""
    now = batch.logits.double().softmax(1)
    other = predict(model, batch, what).double().softmax(1)
    half = 0.5 * (now - other).square().sum(1)
    return half.flatten(1).mean(1) if half.ndim > 1 else half
