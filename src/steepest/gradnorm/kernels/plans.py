"""From the shapes of a call to the kernel and the tile that serve it, settled once."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import torch
from torch import Tensor

from steepest.gradnorm.kernels import tiles
from steepest.gradnorm.kernels.launch import PairRun, Run
from steepest.gradnorm.kernels.shapes import Problem, from_convolution, from_linear, layout

Key = tuple[torch.Size, tuple[int, ...], torch.dtype, torch.device, bool]
"""Shape, strides, precision, device and alignment of a tensor: all that a plan depends on."""

Window = tuple[tuple[int, ...], ...]
"""Kernel, stride, padding and dilation; nothing for a linear layer."""


@lru_cache(maxsize=1024)
def plan_outer(a: Key, g: Key, window: Window, tf32: bool) -> Run:
    """Plan squared norms by tiles of the gradient."""
    from steepest.gradnorm.kernels import bulk, instantiate, narrow

    problem, precision = _problem(a, g, window), _precision(tf32)
    if problem.is_narrow:
        return narrow.plan_patches(problem, tiles.narrow_tile_for(problem, precision), precision)
    if bulk.fits_bulk_copies(problem, a[3]):
        return bulk.plan_boxes(problem, tiles.box_tile_for(problem))
    return instantiate.plan_rows(problem, tiles.tile_for(problem, precision), precision)


@lru_cache(maxsize=1024)
def plan_gram(a: Key, g: Key, window: Window, tf32: bool) -> PairRun:
    """Plan squared norms by products of pairs of positions."""
    from steepest.gradnorm.kernels import gram

    problem, precision = _problem(a, g, window), _precision(tf32)
    return gram.plan_pairs(problem, tiles.gram_tile_for(problem, precision), precision)


@lru_cache(maxsize=1024)
def plan_sums(x: Key, g: Key) -> PairRun:
    """Plan sums over the positions of [N, C, T]."""
    from steepest.gradnorm.kernels import sums

    left, right = (layout(_like(key)[:, :, None, None]) for key in (x, g))
    return sums.plan_sums(left, right, tiles.sum_tile_for(right, g[2].itemsize))


def _problem(a: Key, g: Key, window: Window) -> Problem:
    sides = _like(a), _like(g)
    problem = from_convolution(*sides, *window) if window else from_linear(*sides)
    return replace(problem, is_aligned=a[4] and g[4])


def _like(key: Key) -> Tensor:
    """Return a tensor of that shape without numbers, to reshape it by torch's own rules."""
    shape, stride, dtype, *_ = key
    return torch.empty_strided(shape, stride, dtype=dtype, device="meta")


def _precision(tf32: bool) -> str:
    return "tf32" if tf32 else "ieee"
