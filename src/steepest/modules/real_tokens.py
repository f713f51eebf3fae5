"""Texts of a batch without their padding, for models that classify every token.

A loss or a score of such a model is a mean over tokens, in which padding would count: picks would
change with whatever else is in a batch. So each text is looked at without its padding, among those
with as many tokens. A model that classifies whole texts has no need of this: it takes the mask.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from steepest.errors import InputError, ModelError
from steepest.modules.batches import Inputs, logits_of, take

MASK = "attention_mask"
"""The input that tells tokens (1) from padding (0), by the name that Hugging Face gives it."""


class Texts(NamedTuple):
    """Some texts of a batch, all with the same tokens in use.

    Attributes:
        rows: Where they are in the batch [n].
        columns: The tokens that are no padding [l].
        inputs: The texts without padding.
    """

    rows: Tensor
    columns: Tensor
    inputs: Inputs

    def targets(self, given: Tensor | None) -> Tensor | None:
        """Return the labels of these texts out of those of their batch [N, L]."""
        if given is None:
            return None
        rows = given[self.rows.to(given.device)]
        return rows if rows.ndim < 2 else rows[:, self.columns.to(rows.device)]


def has_mask(inputs: Inputs) -> bool:
    """Say whether a batch comes with a mask [N, L]."""
    return _mask_of(inputs) is not None


def has_padding(inputs: Inputs) -> bool:
    """Say whether a batch comes with a mask [N, L] that rules out some tokens."""
    mask = _mask_of(inputs)
    return mask is not None and not bool(mask.all())


def classifies_tokens(run: Callable[[Inputs], Any], inputs: Inputs) -> bool:
    """Say whether a model gives logits [N, C, L] to texts of L tokens.

    Args:
        run: Calls the model.
        inputs: At least one text.

    Raises:
        ModelError: If the classes are last, where they cannot be told from tokens.
    """
    mask = _mask_of(inputs)
    if mask is None or not len(mask):
        return False
    try:
        logits = logits_of(run(take(inputs, slice(0, 1))))
    except ModelError:
        return False  # The error is raised where the batch is measured.
    length = mask.shape[1]
    if logits.ndim == 3 and logits.shape[1] == length != logits.shape[2]:
        raise ModelError(
            f"the model's logits [N, {length}, {logits.shape[2]}] have a row for each of the "
            f"{length} tokens, where [N, C, L] is needed: return logits.transpose(1, 2)"
        )
    return logits.ndim == 3 and logits.shape[2] == length


def without_padding(inputs: Inputs) -> list[Texts]:
    """Return the texts of a batch in groups that need no padding.

    Raises:
        InputError: If a text has no token at all.
    """
    mask = _mask_of(inputs)
    if mask is None or not isinstance(inputs, Mapping):
        raise InputError(f"inputs have no {MASK!r} [N, L]")
    used = mask != 0
    if not bool(used.any(1).all()):
        row = int((~used.any(1)).nonzero()[0])
        raise InputError(f"text {row} of the batch holds nothing but padding: leave it out")
    kinds, kind = torch.unique(used, dim=0, return_inverse=True)
    return [
        _texts(inputs, (kind == number).nonzero()[:, 0], columns.nonzero()[:, 0])
        for number, columns in enumerate(kinds)
    ]


def _texts(inputs: Mapping[str, Tensor], rows: Tensor, columns: Tensor) -> Texts:
    length = inputs[MASK].shape[1]
    found = {name: tensor[rows.to(tensor.device)] for name, tensor in inputs.items()}
    cut = {
        name: tensor[:, columns.to(tensor.device)]
        if tensor.ndim > 1 and tensor.shape[1] == length
        else tensor
        for name, tensor in found.items()
    }
    return Texts(rows, columns, cut)


def _mask_of(inputs: Inputs) -> Tensor | None:
    mask = inputs.get(MASK) if isinstance(inputs, Mapping) else None
    return mask if isinstance(mask, Tensor) and mask.ndim == 2 else None
