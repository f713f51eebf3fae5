"""A simulated annotator who errs: a share of the training labels is wrong."""

from __future__ import annotations

from dataclasses import replace

import torch

from steepest.core.seeds import keyed_uniform
from steepest.data.base import ImageSet
from steepest.data.sealed import SealedLabels
from steepest.errors import InputError

_PURPOSE = "a simulated annotator who errs"


def with_wrong_labels(data: ImageSet, share: float) -> ImageSet:
    """Return a data set in which a share of the training labels is another class.

    Which labels are wrong, and which class they name, depends on a sample's id alone: it is the
    same in every run, and what is wrong at one share is wrong in the same way at any larger one.
    Test labels stay as they are.

    Args:
        data: Samples of one class each.
        share: The chance of a label to be wrong, in [0, 1). The wrong class is any other one, with
            equal chances.

    Raises:
        InputError: If the labels are not one class per sample, or there is no other class.
    """
    if not share:
        return data
    classes = len(data.classes)
    if data.test_labels.dtype != torch.int64:
        raise InputError(
            f"data.label_noise is for one class per sample, and {data.name} is labelled for "
            f"{data.task}: leave it out"
        )
    if classes < 2:
        raise InputError(f"{data.name} has no other class to err to: leave data.label_noise out")
    draws = torch.from_numpy(keyed_uniform(0, _PURPOSE, data.ids, columns=2))
    labels = data.train_labels.unseal(_PURPOSE)
    other = (labels + 1 + (draws[:, 1] * (classes - 1)).long()) % classes
    wrong = torch.where(draws[:, 0] < share, other, labels)
    return replace(data, train_labels=SealedLabels(wrong))
