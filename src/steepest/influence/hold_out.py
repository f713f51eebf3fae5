"""Splits labelled samples into training and held-out ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from steepest.core.seeds import SampleId, keyed_uniform
from steepest.errors import InputError


def hold_out(
    ids: Sequence[SampleId], *, share: float = 0.2, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Split labelled samples into those to train on and those to hold out.

    A sample's part follows from draws keyed by id: as many as the share says, and at least one on
    either side, whatever the order.

    Args:
        ids: The labelled samples [N].
        share: Of them to hold out.
        seed: Seeds the draws.

    Returns:
        Rows to train on and rows held out, each in ascending order.

    Raises:
        InputError: If there are fewer than two samples, or the share is not between 0 and 1.
    """
    if len(ids) < 2 or not 0 < share < 1:
        raise InputError(
            f"{len(ids)} labelled samples with a share of {share} to hold out: give at least two, "
            "and a share between 0 and 1"
        )
    count = min(len(ids) - 1, max(1, round(share * len(ids))))
    order = np.argsort(keyed_uniform(seed, "hold out", ids)[:, 0], kind="stable")
    held = torch.from_numpy(np.sort(order[:count]))
    return torch.from_numpy(np.sort(order[count:])), held
