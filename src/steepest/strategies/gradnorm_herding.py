"""Coverage of the candidates, each weighted by its gradient norm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from steepest.errors import InputError
from steepest.strategies.base import STRATEGIES, Needs, Scorer, Strategy, create, strategy
from steepest.strategies.batch import Batch
from steepest.strategies.herding import Herding, standard_weights

LAST_LAYER = "last-layer"
EQUAL = "equal"


@strategy("gradnorm-herding")
@dataclass(frozen=True)
class GradnormHerding(Herding):
    """Samples near the largest gradient norms that no label is near yet.

    With features z of length 1, candidates U, labelled or chosen samples S and gradient norms w,
    each choice is the largest gain of

        Σ_{x ∈ U} w(x) · max_{s ∈ S} exp(−‖z(x) − z(s)‖² / 2σ²)

    where σ² is the median squared distance of a candidate to its m-th nearest, m = reach · |U| /
    (labels, the new ones included). Few labels make wide kernels, and typical samples are chosen;
    many make narrow ones, and as σ falls to 0 the highest norms are.

    Attributes:
        reach: The number of candidates that a label covers, as a multiple of its share.
        witnesses: The most candidates in the sum, drawn at random; all candidates can be chosen.
        weight: ``"last-layer"``: the root Fisher trace over the last layer, in closed form;
            ``"equal"``; or the name of a strategy that scores samples, whose score is taken.
        weight_options: The options of that strategy.
        power: How much the weight counts; at 0 all candidates count the same.
    """

    weight: str = LAST_LAYER
    weight_options: Mapping[str, Any] = field(default_factory=dict)
    power: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.power <= 100:
            raise InputError(f"gradnorm-herding: power must be between 0 and 100, not {self.power}")
        _ = self.scorer  # Made here, so that its errors are raised early.

    @cached_property
    def scorer(self) -> Scorer | None:
        """The strategy whose score is the weight; None for the built-in weights."""
        if self.weight in (LAST_LAYER, EQUAL):
            if self.weight_options:
                raise InputError(f"gradnorm-herding: weight {self.weight!r} takes no options")
            return None
        made = create(self.weight, self.weight_options)
        if not isinstance(made, Scorer) or not _scores_at_once(made):
            raise InputError(
                f"gradnorm-herding: the weight must be {LAST_LAYER!r}, {EQUAL!r} or a strategy "
                "that scores each sample without training for it, such as 'egl', not "
                f"{self.weight!r}"
            )
        return made

    @property
    def needs(self) -> Needs:
        """Features of candidates and labelled samples, and the inputs of the weight."""
        if self.weight == EQUAL:
            return Needs.FEATURES | Needs.LABELLED
        return super().needs | (Needs.NOTHING if self.scorer is None else self.scorer.needs)

    @property
    def dense(self) -> bool:
        """Whether the weight is defined for samples with many labels."""
        return True if self.scorer is None else self.scorer.dense

    def weigh(self, batch: Batch) -> Tensor:
        """Return the weights [N]."""
        if self.weight == EQUAL:
            return torch.ones(len(batch))
        if self.scorer is not None:
            return self.scorer.score(batch).double().cpu()
        return last_layer_norms(batch)

    def shape(self, weights: Tensor) -> Tensor:
        """Return the weights [N], raised to the power, with a mean of 1."""
        return standard_weights(weights, self.power)


def last_layer_norms(batch: Batch) -> Tensor:
    """Return √((1 − Σ p²)(‖h‖² + 1)) [N]: the root Fisher trace over the last layer.

    Of dense outputs the mean over positions is taken of 1 − Σ p².
    """
    return (impurity(batch) * (batch.features.double().square().sum(1) + 1)).sqrt()


def impurity(batch: Batch) -> Tensor:
    """Return 1 − Σ p² [N]: the expected squared gradient with regard to the logits."""
    p = batch.logits.double().softmax(1)
    # As a product of nonnegative terms: the difference would round off for confident predictions.
    return (p * (1 - p)).sum(1).reshape(len(batch), -1).mean(1)


def _scores_at_once(scorer: Scorer) -> bool:
    kind, base = type(scorer), Strategy
    return (
        kind.prepare is base.prepare
        and kind.make_extra is base.make_extra
        and kind.score_all is Scorer.score_all
        and scorer.members == 1
        and scorer.needs & (Needs.LABELLED | Needs.TARGETS | Needs.PREVIOUS) == Needs.NOTHING
        and scorer.name in STRATEGIES.names()
    )
