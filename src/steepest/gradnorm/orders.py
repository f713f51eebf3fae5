"""Calls that may put the samples of a batch into another order.

A plan is made from a few samples. Where the order of the samples stems from the data, another
batch has another one, so that nothing behind such a call can be told by sample from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import torch

from steepest.gradnorm.origins import Origins, plain_name
from steepest.gradnorm.shifts import is_mask, shifts_of

_ASKS = {
    "item", "tolist", "numpy", "__array__", "__bool__", "__int__", "__float__", "__index__",
    "__complex__", "__contains__", "__format__", "__repr__", "__dlpack__", "equal", "allclose",
    "is_nonzero", "nonzero", "argwhere", "unique", "unique_consecutive", "masked_select",
}  # fmt: skip
"""What gives the host values, or shapes that depend on values."""


@dataclass(frozen=True)
class Move:
    """A call that may put samples elsewhere.

    Attributes:
        name: What was called.
        dims: The dimensions along which something changes places.
        by_data: Whether the data has a say in it; otherwise only the host has.
        place: How many calls with parameters came before.
        shape: Of what is moved; the same move may be made of other batches.
    """

    name: str
    dims: tuple[int, ...]
    by_data: bool
    place: int
    shape: torch.Size = field(compare=False)


class Orders:
    """The moves of one forward pass.

    Args:
        origins: Where tensors come from.
        recording: Whether to look for what happened out of sight, too.

    Attributes:
        moves: What may have put samples elsewhere, in order.
        asked: Whether the host got to know values that depend on the data.
        hidden_from: The place from which on something may have happened out of sight.
    """

    def __init__(self, origins: Origins, *, recording: bool = True) -> None:
        self._origins, self._recording = origins, recording
        self.moves: list[Move] = []
        self.asked = False
        self.hidden_from: int | None = None

    def note(
        self,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        place: int,
    ) -> None:
        """Look at a call before its results are known to ``Origins``."""
        origins, name, given = self._origins, plain_name(func), (args, dict(kwargs))
        if self._recording and self.hidden_from is None and origins.are_new(given):
            self.hidden_from = place
        if name in _ASKS or (name == "where" and len(args) + len(kwargs) == 1):
            self.asked |= origins.vary(given)
        for shift in shifts_of(name, args, kwargs):
            by_data = origins.vary(shift.how)
            if origins.vary(shift.moved) and not origins.are_steady(shift.how):
                self.asked |= by_data and is_mask(shift.how)
                self.moves.append(Move(name, shift.dims, by_data, place, shift.base.shape))


def first_disorder(small: Orders, large: Orders) -> int | None:
    """Find from where on samples may be in an order that another batch does not have.

    Args:
        small: A pass of a few samples.
        large: A pass of another number of samples.

    Returns:
        How many calls with parameters come before; None if the order holds to the end.
    """
    place = _first_move(small, large)
    if place is None:
        return None
    # What is undone here may have been done out of sight.
    hidden = [o.hidden_from for o in (small, large) if o.hidden_from is not None]
    return min([place, *hidden])


def _first_move(small: Orders, large: Orders) -> int | None:
    asked = small.asked or large.asked
    both = ([m for m in orders.moves if m.by_data or asked] for orders in (small, large))
    for a, b in zip_longest(*both):
        if a is None or b is None or a != b or len(a.shape) != len(b.shape):
            return min(move.place for move in (a, b) if move is not None)
        sizes = enumerate(zip(a.shape, b.shape, strict=True))
        if any(n != m and dim in a.dims for dim, (n, m) in sizes):
            return int(a.place)
    return None
