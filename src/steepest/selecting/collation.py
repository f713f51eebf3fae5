"""Batches of rows with names, such as tokenised texts of different lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import default_collate

from steepest.data.texts import ID_COLUMNS
from steepest.errors import InputError

LABEL_KEYS = frozenset({"label", "labels", "target", "targets", "y"})
"""Names of entries that no model is given."""

_TOKENS, _MASK = "input_ids", "attention_mask"


def is_ragged(item: object) -> bool:
    """Say whether rows such as this one take more than stacking: lists of numbers, or texts."""
    return isinstance(item, Mapping) and (
        _TOKENS in item or any(isinstance(value, (str, list)) for value in item.values())
    )


def collate_rows(items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a batch of rows: numbers and lists of numbers; texts and ids of rows stay behind.

    Lists of different lengths are padded with 0 at their end. Tokens come with a mask, so that no
    model need look at the padding.

    Args:
        items: Rows with the same names.

    Raises:
        InputError: If nothing is left that a model could be given.
    """
    names = [
        name
        for name, value in items[0].items()
        if name.lower() not in ID_COLUMNS and name not in LABEL_KEYS and not _is_text(value)
    ]
    if not names:
        raise InputError(
            f"rows of the pool hold texts alone ({', '.join(items[0])}): tokenise them, as "
            "steepest.data.TokenisedTexts(texts, tokenizer), or leave the model out"
        )
    lengths = {len(item[_TOKENS]) for item in items} if _TOKENS in names else set()
    if len(lengths) > 1 and _MASK not in names:
        items = [{**item, _MASK: torch.ones(len(item[_TOKENS])).long()} for item in items]
        names.append(_MASK)
    return {name: _column([item[name] for item in items]) for name in names}


def _is_text(value: object) -> bool:
    return isinstance(value, str) or (
        isinstance(value, list) and bool(value) and isinstance(value[0], str)
    )


def _column(values: list[Any]) -> Any:  # noqa: ANN401
    if not isinstance(values[0], (list, Tensor, np.ndarray)):
        return default_collate(values)
    rows = [torch.as_tensor(value) for value in values]
    if all(row.shape == rows[0].shape for row in rows):
        return torch.stack(rows)
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
