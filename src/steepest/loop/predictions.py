"""Predictions without a torch model, in the shape in which strategies look at a pool."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from steepest.core.seeds import SampleId
from steepest.errors import InputError, NonFiniteError, SteepestError, in_one_line
from steepest.modules.batches import Inputs
from steepest.selecting.samples import Samples
from steepest.strategies import Needs, Strategy

Predict = Callable[[list[SampleId]], Any]
"""Maps ids to class probabilities [N, C]."""

_KNOWN = Needs.LOGITS | Needs.FEATURES | Needs.LABELLED
"""The needs that predictions and given features can meet."""

_SUM_ERROR = 1e-3


class Predictions(nn.Module):
    """A model that returns its inputs, the logarithms of probabilities, as logits."""

    def __init__(self) -> None:
        super().__init__()
        # Inputs are brought to the type of the weights: 1 − p of a sure prediction needs doubles.
        self.precise = nn.Parameter(torch.empty(0, dtype=torch.float64), requires_grad=False)

    def forward(self, logarithms: Tensor) -> Tensor:
        """Return the inputs [N, C]."""
        return logarithms


def predicted_samples(ids: Sequence[SampleId], predict: Predict, strategy: Strategy) -> Samples:
    """Return a pool whose inputs are log-probabilities, predicted on first use.

    Args:
        ids: All samples [N].
        predict: Not called for strategies that need no logits.
        strategy: Who will look.
    """

    def load(positions: Sequence[int], size: int) -> Iterator[Inputs]:
        classes: int | None = None
        for start in range(0, len(positions), size):
            part = [ids[p] for p in positions[start : start + size]]
            if Needs.LOGITS not in strategy.needs:
                yield torch.zeros(len(part), 2, dtype=torch.float64)
                continue
            rows = log_probabilities(_asked(predict, part), part)
            if classes not in (None, rows.shape[1]):
                raise InputError(
                    f"predict returned {rows.shape[1]} classes after {classes}: a column for every "
                    "class, always in the same order"
                )
            classes = rows.shape[1]
            yield rows

    return Samples(ids, load, read_ahead=False)


def _asked(predict: Predict, ids: list[SampleId]) -> Any:  # noqa: ANN401
    try:
        return predict(ids)
    except SteepestError:
        raise
    except Exception as error:
        raise InputError(
            f"predict failed on {len(ids)} samples from {ids[0]!r} on ({in_one_line(error)})"
        ) from error


def log_probabilities(probabilities: Any, ids: Sequence[SampleId]) -> Tensor:  # noqa: ANN401
    """Return the finite logarithms of probabilities [N, C].

    A probability of zero becomes the smallest positive number: its logarithm is finite, and its
    contribution to any score is negligible.

    Args:
        probabilities: The result of ``predict``.
        ids: The samples in question [N].

    Raises:
        InputError: If these are no probabilities of at least two classes.
    """
    values = (
        probabilities.detach().cpu().numpy()
        if isinstance(probabilities, Tensor)
        else np.asarray(probabilities)
    )
    if values.dtype.kind not in "fiub" or values.ndim != 2 or values.shape[1] < 2:
        raise InputError(
            f"predict returned {values.dtype} of shape {list(values.shape)}: return probabilities "
            "[N, C] of at least two classes"
        )
    if len(values) != len(ids):
        raise InputError(f"predict returned {len(values)} rows for {len(ids)} samples: one each")
    rows = values.astype(np.float64)
    if not np.isfinite(rows).all():
        bad = ids[int((~np.isfinite(rows)).any(1).argmax())]
        raise NonFiniteError(f"predict returned NaN or infinity for sample {bad!r}: look at it")
    wrong = (rows < 0).any(1) | (abs(rows.sum(1) - 1) > _SUM_ERROR)
    if wrong.any():
        bad = ids[int(wrong.argmax())]
        raise InputError(
            f"predict returned no probabilities for sample {bad!r}: they must be at least 0 and "
            "add up to 1; take the softmax of scores first; of labels that do not exclude each "
            "other (multi-label), only a torch model with task= can be asked"
        )
    return torch.from_numpy(np.log(np.maximum(rows, np.finfo(np.float64).tiny)))


def check_predictable(strategy: Strategy, *, features: bool) -> None:
    """Refuse a strategy that takes more than predictions.

    Args:
        strategy: Who would choose.
        features: Whether features were given.

    Raises:
        InputError: If it cannot be used; the message gives the remedy.
    """
    remedy = "use 'margin' or 'entropy', or give a torch model in place of predict"
    if Needs.GRADIENTS in strategy.needs:
        raise InputError(f"{strategy.name} takes a model's gradients: {remedy}")
    # Who asks for labelled samples but not for their features looks at the inputs themselves.
    reads_inputs = Needs.LABELLED in strategy.needs and Needs.FEATURES not in strategy.needs
    if reads_inputs or strategy.needs & ~_KNOWN:
        raise InputError(f"{strategy.name} takes more than predictions: {remedy}")
    if Needs.FEATURES in strategy.needs and not features:
        raise InputError(
            f"{strategy.name} chooses by features, and predictions have none: give them by "
            "features=, one row for each sample"
        )
