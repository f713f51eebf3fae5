"""Does a model return probabilities where logits belong?

Scores of the two differ, and nothing in the scores shows it: the softmax of a softmax is close to
uniform, whatever the model knows.
"""

from __future__ import annotations

import warnings

from torch import Tensor

from steepest.errors import ProbabilitiesWarning

_TOLERANCE = 1e-4
_ENOUGH = 32
"""So many logits of presence are hardly all between 0 and 1 by chance."""

_LOOKED_AT = 1 << 22
"""Numbers of label maps that are looked at, about."""


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


def warn_of_probabilities(stacklevel: int) -> None:
    """Warn of logits that look like probabilities.

    Args:
        stacklevel: Where the user's call is, as seen from the caller.
    """
    warnings.warn(
        "the outputs look like probabilities: return logits (before softmax or sigmoid)",
        ProbabilitiesWarning,
        stacklevel=stacklevel + 1,
    )
