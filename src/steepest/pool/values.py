"""Ids and labels as plain JSON values, whatever array they came from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from steepest.core.seeds import SampleId
from steepest.errors import InputError

Label = int | str | list[int]
"""A class, a text, or several classes."""


def plain_id(value: object) -> SampleId:
    """Return one id as a plain int or str."""
    plain = _unwrap(value)
    if isinstance(plain, str):
        check_text(plain, "id")
        return plain
    if _is_whole(plain):
        return int(plain)
    remedy = "give ids, and no mask" if isinstance(plain, bool) else "take int() or str() of it"
    raise InputError(f"id {value!r} is neither a whole number nor a text: {remedy}")


def plain_ids(values: object) -> list[SampleId]:
    """Return ids as plain values in their order.

    Raises:
        InputError: If one is not an id, or one is there twice.
    """
    ids = [plain_id(value) for value in plain_list(values, "ids")]
    if len(set(ids)) < len(ids):
        twice = Counter(ids).most_common(1)[0][0]
        raise InputError(f"sample {twice!r} is there twice; give each id once")
    return ids


def plain_label(value: object) -> Label:
    """Return one label as a plain int, str or list of ints."""
    plain = _unwrap(value)
    if isinstance(plain, str):
        check_text(plain, "label")
        return plain
    if _is_whole(plain):
        return int(plain)
    if isinstance(plain, (list, tuple)):
        classes = [_unwrap(item) for item in plain]
        if all(_is_whole(item) for item in classes):
            return [int(item) for item in classes]
    raise InputError(f"label {value!r} is not a whole number, a text or a list of whole numbers")


def plain_labels(values: object) -> list[Label]:
    """Return labels as plain values in their order."""
    return [plain_label(value) for value in plain_list(values, "labels")]


def copy_label(label: Label) -> Label:
    """Return a label that the caller may change without changing the pool."""
    return list(label) if isinstance(label, list) else label


def check_text(text: str, what: str) -> None:
    """Refuse text that no UTF-8 file can hold, such as an undecodable file name."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(f"{what} {text!r} is not valid Unicode; rename it") from None


def plain_list(values: object, what: str) -> list[Any]:
    """Return what has an order as a list.

    Raises:
        InputError: If it has none, or is a text.
    """
    plain = _unwrap(values)
    # Sets have no order to match labels with, and a lone text would pass for its letters.
    if isinstance(plain, (str, bytes, AbstractSet, Mapping)):
        raise InputError(f"{what} are a {type(plain).__name__}; give a list")
    try:
        return list(plain)
    except TypeError:
        raise InputError(f"{what} are a {type(plain).__name__}; give a list") from None


def _unwrap(value: Any) -> Any:  # noqa: ANN401 - anything a caller may pass
    """Turn arrays, tensors and their scalars into plain Python values."""
    return value.tolist() if hasattr(value, "tolist") else value


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
