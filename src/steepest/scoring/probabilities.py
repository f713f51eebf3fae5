"""Does a model return probabilities where logits belong?

Scores of the two differ, and nothing in the scores shows it: the softmax of a softmax is close to
uniform, whatever the model knows.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from steepest.errors import ProbabilitiesWarning
from steepest.selection.verdict import check_names
from steepest.strategies import Batch, PoolView
from steepest.strategies.view import Columns, Make

_TOLERANCE = 1e-4
_ENOUGH = 32
"""So many logits of presence are hardly all between 0 and 1 by chance."""

_LOOKED_AT = 1 << 22
"""Numbers of label maps that are looked at, about."""


@dataclass
class FirstLook:
    """What was noticed of the first logits of one selection.

    Attributes:
        done: Whether logits were seen.
        probabilities: Whether they look like probabilities.
        class_names: The names of the classes [C], if they are known.
    """

    done: bool = False
    probabilities: bool = False
    class_names: tuple[str, ...] = ()

    def note(self, logits: Tensor | None) -> None:
        """Look at the logits of a batch [N, C, ...] if they are the first.

        Raises:
            InputError: If there are names for another number of classes.
        """
        if not self.done and logits is not None:
            if logits.ndim == 2:
                check_names(self.class_names, logits.shape[1])
            self.done, self.probabilities = True, look_like_probabilities(logits)


class WatchedView(PoolView):
    """Samples under the present model, with a look at its first logits.

    Args:
        first: Shared by all views of one selection.
        parts: What a ``PoolView`` is made of.
        more: What a ``PoolView`` is made of, by name.
    """

    def __init__(self, first: FirstLook, *parts: Any, **more: Any) -> None:  # noqa: ANN401
        super().__init__(*parts, **more)
        self.first = first

    def collect(self, make: Make, what: str = "looking", size: int | None = None) -> Columns:
        """Look at every sample once and keep what a function makes of each batch."""

        def noted(batch: Batch) -> Tensor | Mapping[str, Tensor]:
            made = make(batch)
            self.first.note(batch.known_logits)
            return made

        return super().collect(noted, what, size)


def look_like_probabilities(logits: Tensor) -> bool:
    """Say whether no number is negative and those of all classes sum to 1, at each position.

    Where each class is there or not, and its logit z stands for the pair (0, z), there is no such
    sum: then it is whether no z of many is outside 0 to 1, as those of a sigmoid.

    Args:
        logits: Of distributions [N, C, ...].
    """
    if logits.ndim < 2 or logits.numel() == 0 or logits.shape[1] < 2:
        return False
    few = len(logits) if logits.ndim == 2 else max(1, _LOOKED_AT // logits[0].numel())
    exact = logits[:few].detach().double()
    if not bool((exact >= 0).all()):
        return False
    near = (exact.sum(1) - 1).abs() <= _TOLERANCE
    return bool(near.all()) or (exact.ndim > 2 and _look_like_sigmoids(exact))


def _look_like_sigmoids(shares: Tensor) -> bool:
    """Say so of numbers that are not negative [N, C, ...]."""
    pairs = shares.shape[1] == 2 and not bool(shares[:, 0].any())
    return pairs and shares[:, 1].numel() >= _ENOUGH and bool((shares[:, 1] <= 1).all())


def warn_of_probabilities(first: FirstLook, stacklevel: int) -> None:
    """Warn when the first logits look like probabilities.

    Args:
        first: Of one selection.
        stacklevel: Where the user's call is, as seen from the caller.
    """
    if first.probabilities:
        warnings.warn(
            "the outputs look like probabilities: return logits (before softmax or sigmoid)",
            ProbabilitiesWarning,
            stacklevel=stacklevel + 1,
        )
