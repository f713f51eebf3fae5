"""Labels that cannot be read by accident."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn

import torch
from torch import Tensor

from steepest.data.streamed import Streamed
from steepest.errors import DataError, HiddenLabelError, InputError

_SEALED = "labels of unlabelled samples can only be read by a labeller or a named oracle analysis"

_CHECKED_AT_ONCE = 64
_IGNORED = 255

_READINGS: ContextVar[list[str] | None] = ContextVar("readings", default=None)

Labels = Tensor | Streamed
"""Class indices, int64 [N]; label maps, uint8 [N, H, W] with 255 where no class is known; or which
classes are there, bool [N, K]. Label maps may be streamed."""


@contextmanager
def readings_recorded() -> Iterator[list[str]]:
    """Record the purposes for which any sealed labels are read in this block, in order.

    Whatever code runs in it can load the data once more; its readings count as well.
    """
    readings: list[str] = []
    token = _READINGS.set(readings)
    try:
        yield readings
    finally:
        _READINGS.reset(token)


class SealedLabels:
    """The labels of a training split, read only by those who say why.

    Args:
        labels: Of any kind in ``Labels``.

    Raises:
        DataError: If they are of no such kind.
    """

    __slots__ = ("_labels", "_purposes")

    def __init__(self, labels: Labels) -> None:
        check_kind(labels)
        self._labels = labels if isinstance(labels, Streamed) else labels.detach().cpu().clone()
        self._purposes: tuple[str, ...] = ()

    @property
    def purposes(self) -> tuple[str, ...]:
        """Purposes for which labels were read, in order."""
        return self._purposes

    @property
    def dense(self) -> bool:
        """Whether each sample has a map of labels."""
        return self._labels.dtype == torch.uint8

    def unseal(self, purpose: str) -> Tensor:
        """Return a copy of all labels [N, ...] and remember the purpose.

        Raises:
            InputError: If no purpose is given.
        """
        labels = self.unseal_rows(range(len(self)), purpose)
        return labels[:] if isinstance(labels, Streamed) else labels

    def unseal_rows(self, rows: Tensor | range | list[int], purpose: str) -> Labels:
        """Return the labels of some samples [R, ...] and remember the purpose.

        Raises:
            InputError: If no purpose is given.
        """
        if not purpose or not purpose.strip():
            raise InputError("say what the labels are read for: unseal('oracle labeller')")
        self._purposes = (*self._purposes, purpose)
        if (readings := _READINGS.get()) is not None:
            readings.append(purpose)
        if isinstance(self._labels, Streamed):
            return self._labels.take(torch.as_tensor(rows))
        return self._labels[torch.as_tensor(rows, dtype=torch.long)]

    def digest(self) -> bytes:
        """Return a hash of all labels, which tells none of them; maps on disk are left out."""
        if isinstance(self._labels, Streamed):
            return b""
        return hashlib.sha256(self._labels.contiguous().numpy().tobytes()).digest()

    def fit(self, classes: int) -> bool:
        """Say whether every label is one of ``classes`` classes; maps on disk are not looked at."""
        return fits(self._labels, classes)

    def __len__(self) -> int:
        return len(self._labels)

    def __repr__(self) -> str:
        return (
            f"SealedLabels({len(self)} labels, read for: {', '.join(self._purposes) or 'nothing'})"
        )

    def __getitem__(self, index: Any) -> NoReturn:  # noqa: ANN401 - whatever is requested
        raise HiddenLabelError(_SEALED)

    def __iter__(self) -> NoReturn:
        raise HiddenLabelError(_SEALED)

    def __array__(self, *_: Any, **__: Any) -> NoReturn:  # noqa: ANN401 - numpy's own protocol
        raise HiddenLabelError(_SEALED)

    def tolist(self) -> NoReturn:
        """Refuse, as every other way round ``unseal`` does."""
        raise HiddenLabelError(_SEALED)

    @classmethod
    def __torch_function__(cls, *_: Any, **__: Any) -> NoReturn:  # noqa: ANN401 - torch's protocol
        raise HiddenLabelError(_SEALED)


def check_kind(labels: Labels) -> None:
    """Refuse labels of no known kind.

    Raises:
        DataError: Naming the kinds found.
    """
    dimensions = len(labels.shape)
    known = {torch.int64: dimensions == 1, torch.uint8: dimensions > 2, torch.bool: dimensions == 2}
    if not known.get(labels.dtype, False):
        raise DataError(
            f"labels are {labels.dtype} of shape {list(labels.shape)}; give classes int64 [N], "
            "label maps uint8 [N, H, W] or several classes bool [N, K]"
        )


def fits(labels: Labels, classes: int) -> bool:
    """Say whether every label is one of ``classes`` classes; maps on disk are not looked at."""
    if isinstance(labels, Streamed):
        return True
    if labels.dtype == torch.bool:
        return labels.shape[1] == classes
    if labels.dtype == torch.uint8:
        parts = torch.split(labels, _CHECKED_AT_ONCE)
        return all(bool(((p < classes) | (p == _IGNORED)).all()) for p in parts)
    return bool(((labels >= 0) & (labels < classes)).all())
