"""Calls that may put the samples of a batch into another order.

A plan is made from a few samples. Where the order of the samples stems from the data, another
batch has another one, so that nothing behind such a call can be told by sample from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor

from steepest.gradnorm.origins import Origins, plain_name
from steepest.gradnorm.shifts import (
    is_mask,
    numbers_samples,
    puts_in_order,
    shifts_of,
    stays_within_samples,
)
from steepest.modules.batches import tensors_in

_ASKS = {
    "item", "tolist", "numpy", "__array__", "__bool__", "__int__", "__float__", "__index__",
    "__complex__", "__contains__", "__format__", "__repr__", "__dlpack__", "equal", "allclose",
    "is_nonzero", "nonzero", "argwhere", "unique", "unique_consecutive", "masked_select",
}  # fmt: skip
"""What gives the host values, or shapes that depend on values."""

_TURNS = {"flip", "flipud", "rot90", "roll"}
_TAKES_APART = {"unbind", "split", "split_with_sizes", "chunk", "tensor_split"}


@dataclass(frozen=True)
class Move:
    """A call that may put samples elsewhere.

    Attributes:
        name: What was called.
        dims: The dimensions along which something changes places.
        by_data: Whether the data has a say in it; otherwise only the host has.
        place: How many calls with parameters came before.
        shape: Of what is moved; the same move may be made of other batches.
        turns: Whether all are kept, in another order; a model may choose by the data whether to
            go on with it.
        within: Whether nothing leaves its sample, as far as numbers of rows can tell.
        rows: What is moved in that case, while it is being recorded; None where the samples have a
            dimension of their own.
        numbers: The shapes of what comes out, if those are whole numbers. If they are the same for
            any number of samples, nothing in there belongs to one of them.
    """

    name: str
    dims: tuple[int, ...]
    by_data: bool
    place: int
    shape: torch.Size = field(compare=False)
    turns: bool = False
    within: bool = False
    rows: Tensor | None = field(compare=False, default=None)
    numbers: tuple[torch.Size, ...] | None = field(compare=False, default=None)


class Orders:
    """The moves of one forward pass.

    Args:
        origins: Where tensors come from.
        samples: The number of samples N.
        recording: Whether to look for what happened out of sight, too.

    Attributes:
        samples: The number of samples N.
        moves: What may have put samples elsewhere, in order.
        asked: Whether the host got to know values that depend on the data.
        made: What was called, at which place, and the shapes of its results.
        hidden_from: The place from which on something may have happened out of sight.
    """

    def __init__(self, origins: Origins, samples: int, *, recording: bool = True) -> None:
        self._origins, self.samples, self._recording = origins, samples, recording
        self.moves: list[Move] = []
        self._before = 0
        self.asked = False
        self.hidden_from: int | None = None
        self.made: list[tuple[str, int, list[torch.Size]]] = []

    def note_made(self, func: Callable[..., Any], result: Any, place: int) -> None:  # noqa: ANN401
        """Note the shapes of results that depend on the data."""
        found = tensors_in(result)
        if found and not any(tensor.is_floating_point() for tensor in found):
            numbers = tuple(tensor.shape for tensor in found)
            new = [replace(move, numbers=numbers) for move in self.moves[self._before :]]
            self.moves[self._before :] = new
        if self._recording and self._origins.stem_from_data(result):
            self.made.append((plain_name(func), place, [tensor.shape for tensor in found]))

    def note(
        self,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        place: int,
    ) -> None:
        """Look at a call before its results are known to ``Origins``."""
        origins, name, given = self._origins, plain_name(func), (args, dict(kwargs))
        self._before = len(self.moves)
        if self._recording and self.hidden_from is None and origins.are_new(given):
            self.hidden_from = place
        if name in _ASKS or (name == "where" and len(args) + len(kwargs) == 1):
            self.asked |= origins.vary(given)
        shifts = shifts_of(name, args, kwargs)
        for shift in shifts:
            by_data = origins.vary(shift.how)
            if origins.vary(shift.moved) and not origins.are_steady(shift.how):
                self.asked |= by_data and is_mask(shift.how)
                alone = len(shifts) == 1
                stays = stays_within_samples if alone else numbers_samples
                within = by_data and stays(shift, self.samples)
                kept = within and alone and self._recording
                rows = shift.moved.detach().clone() if kept else None
                turns = name in _TURNS or (not by_data and puts_in_order(shift))
                shape = shift.base.shape
                self.moves.append(
                    Move(name, shift.dims, by_data, place, shape, turns, within, rows)
                )


def first_disorder(small: Orders, large: Orders) -> int | None:
    """Find from where on samples may be in an order that another batch does not have.

    Args:
        small: A pass of a few samples.
        large: A pass of another number of samples.

    Returns:
        How many calls with parameters come before; None if the order holds to the end.
    """
    found = [p for p in (_first_move(small, large), _first_square(small, large)) if p is not None]
    if not found:
        return None
    place = min(found)
    # What is undone here may have been done out of sight.
    hidden = [o.hidden_from for o in (small, large) if o.hidden_from is not None]
    return min([place, *hidden])


def moves_to_expect(small: Orders, large: Orders) -> list[Move] | None:
    """Return the moves that every batch must make; None if none of them could make others."""
    moves = [replace(move, rows=None) for move in small.moves]
    for i, (a, b) in enumerate(zip(small.moves, large.moves, strict=False)):
        if a.numbers != b.numbers:
            moves[i] = replace(moves[i], numbers=None)
    asked = small.asked or large.asked
    return moves if asked or any(move.within for move in moves) else None


def _first_move(small: Orders, large: Orders) -> int | None:
    asked = small.asked or large.asked
    both = (
        [m for m in orders.moves if m.by_data or asked or m.turns or m.name in _TAKES_APART]
        for orders in (small, large)
    )
    for a, b in zip_longest(*both):
        if a is None or b is None or a != b or len(a.shape) != len(b.shape):
            return min(move.place for move in (a, b) if move is not None)
        if a.within and (
            a.rows is None or _are_blocks(a.rows, small.samples, b.rows, large.samples)
        ):
            continue
        if a.numbers is not None and a.numbers == b.numbers:
            continue
        grown = [(a.shape[dim], b.shape[dim]) for dim in a.dims if a.shape[dim] != b.shape[dim]]
        if not (a.by_data or asked or a.turns):
            # Where several things were folded with the samples, their parts may be whole batches.
            grown = [sizes for sizes in grown if sizes == (small.samples, large.samples)]
        if grown:
            return int(a.place)
    return None


def _first_square(small: Orders, large: Orders) -> int | None:
    """Find where every sample first meets every other one, as in a matrix that mixes them."""
    few, many = small.samples, large.samples
    for (name, place, shapes), (other, _, others) in zip(small.made, large.made, strict=False):
        if name != other or len(shapes) != len(others):
            return None  # The passes differ, and cannot be compared any further.
        for a, b in zip(shapes, others, strict=True):
            # Other sizes may follow the data, as that of the longest sentence does.
            grown = [(n, m) for n, m in zip(a, b, strict=False) if n != m]
            powers = [d for n, m in grown for d in (1, 2) if n * many**d == m * few**d]
            if sum(powers) > 1:
                return place
    return None


def _are_blocks(small: Tensor | None, n: int, large: Tensor | None, m: int) -> bool:
    """Say whether rows are those of the first sample, then of the second, and so on.

    Both batches begin with the same two samples, whose rows must be in the same places then: were
    the samples folded in another way, others would be there.
    """
    if small is None or large is None or len(small) % n or len(large) % m:
        return False
    a, b = (t.double().reshape(k, -1)[:2] for t, k in ((small, n), (large, m)))
    if a.shape != b.shape or len(a) < 2 or not a.numel():
        return False
    scale = a.abs().max().clamp_min(1e-300)
    first, second = a
    same = bool(((a - b).abs() <= 1e-3 * scale).all())
    return same and bool(((first - second).abs() > 1e-2 * scale).any())
