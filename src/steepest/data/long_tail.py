"""Classes of very different sizes: a long-tailed part of a data set."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from steepest.core.seeds import keyed_uniform
from steepest.data.base import ImageSet
from steepest.data.limit import take
from steepest.data.sealed import SealedLabels
from steepest.errors import InputError

_PURPOSE = "classes of different sizes"


def long_tailed(data: ImageSet, imbalance: float) -> ImageSet:
    """Return a data set whose training classes become rarer from the first to the last.

    Class c of C keeps the share imbalance^(−c / (C − 1)) of its samples, rounded up: all of the
    first class, and 1/imbalance of the last. Which ones depends on the samples' ids alone: it is
    the same in every run, and what is kept is kept with any smaller imbalance. Ids are counted
    anew. Test samples stay as they are.

    Args:
        data: Samples of one class each.
        imbalance: At least 1, which keeps all.

    Raises:
        InputError: If the labels are not one class per sample.
    """
    if imbalance == 1:
        return data
    if data.test_labels.dtype != torch.int64:
        raise InputError(
            f"data.imbalance is for one class per sample, and {data.name} is labelled for "
            f"{data.task}: leave it out"
        )
    labels = data.train_labels.unseal(_PURPOSE)
    draws = torch.from_numpy(keyed_uniform(0, _PURPOSE, data.ids)[:, 0])
    last = max(1, len(data.classes) - 1)
    kept: list[int] = []
    for number in range(len(data.classes)):
        members = (labels == number).nonzero()[:, 0]
        share = imbalance ** (-number / last)
        # A tenth of 130 is 13, though their product is a little more.
        count = math.ceil(len(members) * share - 1e-9)
        kept += members[draws[members].argsort(stable=True)[:count]].tolist()
    rows = sorted(kept)
    return replace(
        data,
        train_images=take(data.train_images, rows),
        train_labels=SealedLabels(data.train_labels.unseal_rows(rows, _PURPOSE)),
    )
