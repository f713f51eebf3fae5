"""Altered data sets: cut down for a trial, long-tailed, or with wrong labels."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from steepest.core.seeds import keyed_uniform, random_subset
from steepest.data.base import Images, ImageSet
from steepest.data.sealed import Labels, SealedLabels
from steepest.data.streamed import Streamed
from steepest.errors import InputError

_PURPOSE = "classes of different sizes"
_NOISE_PURPOSE = "a simulated annotator who errs"


def limited(data: ImageSet, limit: int) -> ImageSet:
    """Return a fixed random part of a data set; ids are numbered again.

    Args:
        data: The whole.
        limit: How many training samples, and how many test samples, are kept at most.
    """
    train = _draw(len(data.train_images), limit, "training samples")
    test = _draw(len(data.test_images), limit, "test samples")
    return replace(
        data,
        train_images=take(data.train_images, train),
        train_labels=SealedLabels(data.train_labels.unseal_rows(train, "a part of the data set")),
        test_images=take(data.test_images, test),
        test_labels=take(data.test_labels, test),
    )


def take(column: Images | Labels, rows: list[int]) -> Images | Labels:
    """Return some samples of a column."""
    return (
        column.take(rows)
        if isinstance(column, Streamed)
        else column[torch.tensor(rows, dtype=torch.long)]
    )


def _draw(count: int, limit: int, purpose: str) -> list[int]:
    return sorted(int(row) for row in random_subset(range(count), limit, 0, purpose))


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
        raise InputError(
            f"{data.name} has no other class for wrong labels: leave data.label_noise out"
        )
    draws = torch.from_numpy(keyed_uniform(0, _NOISE_PURPOSE, data.ids, columns=2))
    labels = data.train_labels.unseal(_NOISE_PURPOSE)
    other = (labels + 1 + (draws[:, 1] * (classes - 1)).long()) % classes
    wrong = torch.where(draws[:, 0] < share, other, labels)
    return replace(data, train_labels=SealedLabels(wrong))
