"""The labels of other libraries' data sets, without decoding images where they can be had."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, Subset, TensorDataset

from steepest.data.item_pixels import Given, Items, read_item
from steepest.data.streamed import Streamed
from steepest.errors import DataError

_COLUMNS = ("targets", "labels")
_READ_AT_ONCE = 256
_COMPARED = 32


def collect_labels(items: Items, first: Given, workers: int) -> Tensor:
    """Return all labels of a data set, int64 [N] or [N, K].

    Args:
        items: The data set; an item is (image, label).
        first: The label of its first item, which a column of labels must agree with.
        workers: Processes that read items where there is no such column.

    Raises:
        DataError: If labels are not whole numbers, or a sample cannot be read.
    """
    start = to_numbers(first)
    known = _find_column(items)
    if known is not None and len(known) == len(items) and _agrees(known, items):
        return known
    column = Streamed(_LabelReader(items), len(items), start.shape, torch.int64, workers=workers)
    parts = list(torch.split(torch.arange(len(items)), _READ_AT_ONCE))
    return torch.cat(list(column.batches(parts)))


def _agrees(column: Tensor, items: Items) -> bool:
    """Say whether a column of labels is that of the items, judging by a few all over it."""
    rows = set(torch.linspace(0, len(items) - 1, min(_COMPARED, len(items))).long().tolist())
    return all(torch.equal(column[row], to_numbers(read_item(items, row)[1])) for row in rows)


def to_numbers(label: Given) -> Tensor:
    """Return a label, or a row of labels, as int64.

    Raises:
        DataError: If it is not made of whole numbers.
    """
    numbers = _as_whole(label)
    if numbers is None:
        raise DataError(f"a label is {label!r}, not a whole number or a row of them")
    return numbers


class _LabelReader:
    draws = 0

    def __init__(self, items: Items) -> None:
        self._items = items

    def __call__(self, row: int, draw: Tensor | None) -> Tensor:  # noqa: ARG002 - never augmented
        return to_numbers(read_item(self._items, row)[1])


def _find_column(items: Items) -> Tensor | None:
    if isinstance(items, Subset):
        whole = _find_column(items.dataset)
        return None if whole is None else whole[torch.as_tensor(items.indices, dtype=torch.long)]
    if isinstance(items, ConcatDataset):
        parts = [part for part in map(_find_column, items.datasets) if part is not None]
        return torch.cat(parts) if len(parts) == len(items.datasets) else None
    if isinstance(items, TensorDataset):
        return _as_whole(items.tensors[1]) if len(items.tensors) > 1 else None
    column = next((getattr(items, n) for n in _COLUMNS if hasattr(items, n)), None)
    change = getattr(items, "target_transform", None)
    if column is not None and change is not None:
        column = [change(label) for label in column]
    return None if column is None else _as_whole(column)


def _as_whole(labels: Given) -> Tensor | None:
    """Return labels as int64; None if they are something else."""
    if isinstance(labels, (list, tuple)) and labels and isinstance(labels[0], Tensor):
        labels = torch.stack(list(labels))
    if not isinstance(labels, Tensor):
        try:
            array = np.asarray(labels)
        except ValueError:  # rows of several lengths
            return None
        if array.dtype.kind not in "iub":
            return None
        return torch.from_numpy(array.astype(np.int64))
    whole = not labels.is_floating_point() and not labels.is_complex()
    return labels.detach().to("cpu", torch.int64) if whole else None
