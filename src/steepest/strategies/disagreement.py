"""Statistics of several predictions of the same samples, added one after the other.

Probabilities are averaged, never logits. Everything is in double precision, and never more than
one prediction is held beside the running means, so that there may be a thousand of whole label
maps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Literal

import torch
from torch import Tensor

from steepest.errors import InputError

Measure = Literal["mean-entropy", "mutual-information", "variation-ratio", "mean-std"]

TIE = 0.01
"""The part of a vote by which entropy ranks samples of equal variation ratio. It must be more than
what counts as rounding when the highest scores are taken, or chance would rank them."""


class Tally:
    """Running means over predictions of N samples.

    Args:
        measure: What will be asked for; the rest is not kept.
    """

    def __init__(self, measure: Measure) -> None:
        self._measure = measure
        self._count = 0
        # They take the shape of the first prediction.
        self._mean = self._entropy = self._squares = self._votes = torch.zeros(())

    def add(self, logits: Tensor) -> None:
        """Take in one more prediction [N, C, ...]."""
        p = logits.detach().double().softmax(1)
        entropy = torch.special.entr(p).sum(1)
        self._count += 1
        # Means move by a part of the difference: where all predictions agree, it is exactly 0.
        step = p - self._mean.to(p)
        self._mean = self._mean.to(p) + step / self._count
        self._entropy = self._entropy.to(p) + (entropy - self._entropy.to(p)) / self._count
        if self._measure == "mean-std":
            self._squares = self._squares.to(p) + step * (p - self._mean)
        if self._measure == "variation-ratio":
            vote = torch.zeros_like(p).scatter_(1, p.argmax(1, keepdim=True), 1.0)
            self._votes = self._votes.to(p) + vote

    def value(self) -> Tensor:
        """Return the measure of each sample, the mean over its positions [N].

        Raises:
            InputError: If there was no prediction.
        """
        if self._count == 0:
            raise InputError("there is no prediction to measure: take at least one")
        formulas: dict[Measure, Callable[[], Tensor]] = {
            "mean-entropy": self._mean_entropy,
            "mutual-information": lambda: (self._mean_entropy() - self._entropy).clamp_min(0),
            "variation-ratio": self._variation_ratio,
            "mean-std": lambda: (self._squares.clamp_min(0) / self._count).sqrt().mean(1),
        }
        each = formulas[self._measure]()
        return each.flatten(1).mean(1) if each.ndim > 1 else each

    def _mean_entropy(self) -> Tensor:
        entropy: Tensor = torch.special.entr(self._mean).sum(1)
        return entropy

    def _variation_ratio(self) -> Tensor:
        ratio = 1 - self._votes.amax(1) / self._count
        share = self._mean_entropy() / math.log(self._mean.shape[1])
        return ratio + TIE / self._count * share


def disagreement(predictions: Iterable[Tensor], measure: Measure) -> Tensor:
    """Return how far predictions of the same samples are uncertain, or apart.

    ``mean-entropy`` is H(p̄), the entropy of the mean prediction p̄. ``mutual-information`` is
    H(p̄) − mean_t H(p_t): between prediction and network (BALD), or the Jensen-Shannon divergence
    of a committee. ``variation-ratio`` is 1 − f/T for the f of T predictions that agree on the
    most common class, plus 0.01/T · H(p̄) / log C, which ranks ties by entropy and is less than any
    vote. ``mean-std`` is the mean over classes of the standard deviation over predictions.

    Args:
        predictions: Logits [N, C, ...], T times.
        measure: Which of them.

    Returns:
        [N]; of dense predictions the mean over positions.
    """
    tally = Tally(measure)
    for logits in predictions:
        tally.add(logits)
    return tally.value()
