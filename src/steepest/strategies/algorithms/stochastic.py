"""Noise on scores, so that the best k are not all of a kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from steepest.core.seeds import SampleId, keyed_uniform
from steepest.errors import InputError, UnknownNameError
from steepest.strategies.algorithms.top_k import top_k

Kind = Literal["power", "softmax", "softrank"]
"""The perturbed value: the score's logarithm, the score, or its rank's negative logarithm."""

KINDS: tuple[Kind, ...] = ("power", "softmax", "softrank")


def keyed_gumbel(seed: int, ids: Sequence[SampleId]) -> npt.NDArray[np.float64]:
    """Return Gumbel draws [N] that depend on the seed and each id alone."""
    uniform = keyed_uniform(seed, "gumbel", ids)[:, 0]
    # Zero, once in 2^53 draws, has no logarithm.
    draws: npt.NDArray[np.float64] = -np.log(-np.log(np.maximum(uniform, 2.0**-54)))
    return draws


def perturb(
    values: npt.NDArray[np.float64], ids: Sequence[SampleId], kind: Kind, beta: float, seed: int
) -> npt.NDArray[np.float64]:
    """Return scores with Gumbel noise of scale 1/β: the top k of them are a random draw.

    The best k of s + G/β are k draws without replacement with chances ∝ exp(β s). With log s in
    the place of s the chances are ∝ s^β, with −log rank they are ∝ rank^(−β).

    For ``"power"`` a score of zero or less counts as the smallest normal number, 2e-308: it comes
    after all others unless β is tiny.

    Args:
        values: Scores [N]; higher is more wanted.
        ids: Ids [N], which key the noise.
        kind: The value that is perturbed.
        beta: How much the score counts; large is the plain top k, small is an even draw.
        seed: Seeds the noise, and the ties of ranks.

    Raises:
        InputError: If ``"power"`` meets scores of which none is positive and some are negative.
    """
    if kind == "softmax":
        base = values
    elif kind == "softrank":
        ranks = np.empty(len(values))
        ranks[top_k(values, ids, len(values), seed)] = np.arange(1, len(values) + 1)
        base = -np.log(ranks)
    elif kind == "power":
        if values.max(initial=0.0) <= 0 and values.min(initial=0.0) < 0:
            raise InputError("kind 'power' needs positive scores: use kind='softrank' for these")
        base = np.log(np.maximum(values, np.finfo(np.float64).tiny))
    else:
        raise UnknownNameError("kind", kind, KINDS)
    found: npt.NDArray[np.float64] = base + keyed_gumbel(seed, ids) / beta
    return found
