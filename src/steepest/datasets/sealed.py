"""Labels that nobody reads by accident."""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch import Tensor

from steepest.errors import DataError, HiddenLabelError, InputError

_SEALED = "labels of unlabelled samples can only be read by a labeller or a named oracle analysis"


class SealedLabels:
    """The labels of a training split, read only by those who say why.

    Args:
        labels: Class indices [N], int64.

    Raises:
        DataError: If the labels are not whole numbers in one row.
    """

    __slots__ = ("_labels", "_purposes")

    def __init__(self, labels: Tensor) -> None:
        if labels.dtype != torch.int64 or labels.dim() != 1:
            raise DataError(
                f"labels are {labels.dtype} of shape {list(labels.shape)}; give int64 labels [N]"
            )
        self._labels = labels.detach().cpu().clone()
        self._purposes: tuple[str, ...] = ()

    @property
    def purposes(self) -> tuple[str, ...]:
        """What the labels have been read for, in order."""
        return self._purposes

    def unseal(self, purpose: str) -> Tensor:
        """Return a copy of all labels [N] and remember the purpose.

        Raises:
            InputError: If no purpose is given.
        """
        if not purpose or not purpose.strip():
            raise InputError("say what the labels are read for: unseal('oracle labeller')")
        self._purposes = (*self._purposes, purpose)
        return self._labels.clone()

    def fit(self, classes: int) -> bool:
        """Say whether every label is one of ``classes`` classes."""
        return bool(((self._labels >= 0) & (self._labels < classes)).all())

    def __len__(self) -> int:
        return len(self._labels)

    def __repr__(self) -> str:
        return (
            f"SealedLabels({len(self)} labels, read for: {', '.join(self._purposes) or 'nothing'})"
        )

    def __getitem__(self, index: Any) -> NoReturn:  # noqa: ANN401 - whatever is asked for
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
