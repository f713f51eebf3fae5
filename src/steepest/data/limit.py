"""A data set cut down to a few samples, for a trial."""

from __future__ import annotations

from dataclasses import replace

import torch

from steepest.core.seeds import random_subset
from steepest.data.base import Images, ImageSet
from steepest.data.sealed import Labels, SealedLabels
from steepest.data.streamed import Streamed


def limited(data: ImageSet, limit: int) -> ImageSet:
    """Return a random part of a data set, always the same; ids are counted anew.

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
