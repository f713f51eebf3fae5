"""What may be said about how to look at a pool; refused at once, and not after hours of work."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from steepest.core.seeds import SampleId
from steepest.errors import InputError
from steepest.pool.values import plain_id
from steepest.strategies import Support
from steepest.tasks.base import TASKS, Losses

BatchSize = int | Literal["auto"]


def check_subset(subset: Any) -> int | None:  # noqa: ANN401
    """Return the size of a random subset as a plain number; None for all samples.

    Raises:
        InputError: If it is no number of samples.
    """
    if subset is None:
        return None
    number = whole_number(subset)
    if number is None or number < 1:
        raise InputError(f"subset must be a whole number of at least 1, not {subset!r}")
    return number


def check_batch_size(size: Any) -> BatchSize:  # noqa: ANN401
    """Return a batch size as ``"auto"`` or a plain number.

    Raises:
        InputError: If it is neither.
    """
    if isinstance(size, str) and size == "auto":
        return "auto"
    number = whole_number(size)
    if number is None or number < 1:
        raise InputError(f"batch_size must be 'auto' or at least 1, not {size!r}")
    return number


def check_task(task: object, *, by_name: bool = False) -> None:
    """Refuse what is no task.

    Args:
        task: What was given for one.
        by_name: Whether it may be the name of one.

    Raises:
        UnknownNameError: If there is none of that name.
        InputError: Saying how one is given.
    """
    if by_name and isinstance(task, str):
        TASKS.get(task)
        return
    if task is not None and not isinstance(task, Losses):
        raise InputError(
            f"task must be a task such as steepest.tasks.MultiLabel(classes=3), not {task!r}"
        )


def check_support(support: object) -> None:
    """Refuse what is no support.

    Raises:
        InputError: Saying how it is given.
    """
    if support is not None and not isinstance(support, Support):
        raise InputError(
            f"support must be a steepest.strategies.Support(…), not a {type(support).__name__}"
        )


def check_labelled(labelled: Iterable[SampleId]) -> set[SampleId]:
    """Return the ids of labelled samples as plain values.

    Raises:
        InputError: If they are no ids.
    """
    # A lone text would pass for its letters.
    if isinstance(labelled, (str, bytes)) or not isinstance(labelled, Iterable):
        raise InputError(f"labelled is a {type(labelled).__name__}: give a list of ids")
    try:
        return {plain_id(i) for i in labelled}
    except TypeError:  # An array without a dimension says that it can be iterated over.
        raise InputError("labelled is a single number: give a list of ids") from None


def check_class_names(names: object) -> tuple[str, ...]:
    """Return names of classes as a tuple.

    Raises:
        InputError: If they are none.
    """
    # A lone text would pass for its letters.
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise InputError(f"class_names is a {type(names).__name__}: give a list of names")
    for name in names:
        if not isinstance(name, str) or not name:
            raise InputError(f"class_names holds {name!r}: give a text for each class")
    return tuple(names)


def whole_number(value: Any) -> int | None:  # noqa: ANN401
    """Return a number of any kind as a plain one; None if it is not whole, or no number."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None
