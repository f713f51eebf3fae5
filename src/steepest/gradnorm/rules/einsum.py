"""Sums of products that are written as an equation of letters."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters

import torch
from torch import Tensor

from steepest.gradnorm.layout import Layout
from steepest.gradnorm.outer import Outer
from steepest.gradnorm.rules.base import Call, rule
from steepest.gradnorm.shares import Reordered, Share


@rule(torch.einsum, arguments="equation input other")
def contraction(call: Call, g: Tensor) -> dict[str, Share]:
    """Sum of products of the data with one parameter: Σ g ⊗ a over the letters it does not have."""
    if len(call.wanted) != 1:
        raise NotImplementedError
    (name,) = call.wanted
    parameter, data = call[name], call["input" if name == "other" else "other"]
    w, a, out = _letters(call["equation"], data, swapped=name == "input")
    sample = out[call.layout.dim]
    sizes: dict[str, int] = {}
    for letters, tensor in ((w, parameter), (a, data), (out, g)):
        if len(letters) != tensor.ndim or len(set(letters)) != tensor.ndim:
            raise NotImplementedError  # A diagonal.
        if any(sizes.setdefault(c, n) != n for c, n in zip(letters, tensor.shape, strict=True)):
            raise NotImplementedError  # A single entry that is spread out.
    shared = [c for c in w if c in a and c in out]
    rows = [c for c in w if c not in a]
    columns = [c for c in w if c not in out]
    places = [c for c in a if c not in w]
    if sample not in places or {*rows, *places} - {*out} or {*columns} - {*a}:
        raise NotImplementedError  # Letters of one factor alone, which are added up before.
    left = _grouped(call, data, a, sample, [shared, places, columns])
    right = _grouped(call, g, out, sample, [shared, places, rows])
    kept = [*shared, *rows, *columns]
    share = Outer(left, right, torch.Size(sizes[c] for c in kept))
    return {name: share if kept == [*w] else Reordered(share, [kept.index(c) for c in w])}


def _letters(equation: object, data: Tensor, *, swapped: bool) -> tuple[str, str, str]:
    """Return the letters of the parameter, of the data and of the result.

    Args:
        equation: As torch takes it.
        data: The data, which alone may have dimensions without a letter.
        swapped: Whether the parameter comes first.
    """
    if not isinstance(equation, str):
        raise NotImplementedError
    terms, arrow, out = equation.replace(" ", "").partition("->")
    factors = terms.split(",")
    if len(factors) != 2 or not arrow:
        raise NotImplementedError
    w, a = factors if swapped else factors[::-1]
    if "..." in a and "..." not in w:
        free = [c for c in ascii_letters if c not in equation]
        rest = "".join(free[: data.ndim - len(a) + len("...")])
        a, out = a.replace("...", rest), out.replace("...", rest)
    return w, a, out


def _grouped(
    call: Call, tensor: Tensor, letters: str, sample: str, groups: Sequence[Sequence[str]]
) -> Tensor:
    """Return a tensor as [N, G, T, D], its dimensions put together by their letters."""
    at = Layout(letters.index(sample), call.layout.outer, call.layout.inner)
    first = at.first(tensor, call.samples)
    order = [1 + letters.index(c) for group in groups for c in group]
    moved = first.permute(0, *order)
    sizes = [torch.Size(first.shape[1 + letters.index(c)] for c in group) for group in groups]
    return moved.reshape(call.samples, *(size.numel() for size in sizes))
