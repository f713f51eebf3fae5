"""The images of a pool as an autoencoder takes them: of one size, in [−1, 1]."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from steepest.core.memory import free_bytes
from steepest.core.seeds import keyed_uniform
from steepest.errors import InputError
from steepest.modules.batches import Inputs, check_finite
from steepest.strategies.view import PoolView

_LARGEST = {2: 64, 3: 32}
"""Pixels of the longest side, for images and volumes, above which they are made smaller."""

_LOOKED_AT = 256
"""Images of each pool that the range of values is taken from."""

_HELD_BYTES = 8 << 30
"""Bytes a pool may take on the device; larger pools are loaded as needed."""


@dataclass(frozen=True, eq=False)
class Scaling:
    """Brings images to one size and their values into [−1, 1], each channel by its range.

    Attributes:
        low: The smallest value of each channel [C, 1, ...].
        high: The largest.
        size: The size of resized images.
    """

    low: Tensor
    high: Tensor
    size: tuple[int, ...]

    @property
    def channels(self) -> int:
        """Number of image channels."""
        return len(self.low)

    def apply(self, inputs: Inputs) -> Tensor:
        """Return images [N, C, ...] ready for an autoencoder; what is out of range is cut off."""
        images = resized(images_of(inputs).to(self.low), self.size)
        span = self.high - self.low
        # A channel that never changes says nothing: it becomes 0.
        scaled = (images - self.low) / torch.where(span > 0, span, 1) * 2 - (span > 0).to(span)
        return scaled.clamp(-1, 1)


class PoolImages:
    """All images of a pool in their own order: not the pool's, and not the user's.

    They are held on the device if they fit there, and loaded on demand otherwise.

    Args:
        pool: Whose images.
        scaling: How they are prepared.
    """

    def __init__(self, pool: PoolView, scaling: Scaling) -> None:
        self.order = keyed_order(pool)
        self._pool = pool
        self._scaling = scaling
        shape = (len(pool), scaling.channels, *scaling.size)
        needed = torch.Size(shape).numel() * scaling.low.element_size()
        fits = needed <= min(_HELD_BYTES, free_bytes(pool.device) // 2)
        self._held = self._load_all(shape) if fits else None

    def __len__(self) -> int:
        return len(self.order)

    def take(self, rows: Tensor) -> Tensor:
        """Return the images at some rows of the order [B] as one batch [B, C, ...]."""
        if self._held is not None:
            return self._held[rows]
        return self._load([self.order[row] for row in rows.tolist()])

    def in_order(self, values: Tensor) -> Tensor:
        """Return values of the pool's samples [N] by row, on the device, as the images' numbers."""
        low = self._scaling.low
        rows = values[torch.tensor(self.order)].to(low.device)
        return rows.to(low.dtype) if values.is_floating_point() else rows

    def _load(self, positions: Sequence[int]) -> Tensor:
        parts = [self._scaling.apply(part) for part in _loaded(self._pool, positions)]
        return torch.cat(parts)

    def _load_all(self, shape: Sequence[int]) -> Tensor:
        low = self._scaling.low
        held = torch.empty(*shape, dtype=low.dtype, device=low.device)
        place = torch.tensor(self.order, device=low.device).argsort()
        done = 0
        for inputs in self._pool.load_all("loading images"):
            images = self._scaling.apply(inputs)
            held[place[done : done + len(images)]] = images
            done += len(images)
        return held


def fit_scaling(pools: Sequence[PoolView], longest: int | None, dtype: torch.dtype) -> Scaling:
    """Return how the images of some pools are prepared, by the range of some of their values.

    Args:
        pools: The images; the same ones are looked at whatever the order of a pool.
        longest: Pixels of the longest side at most; by default 64, and 32 for volumes.
        dtype: The dtype of the images.

    Raises:
        InputError: If the samples are no images.
    """
    lows, highs, sizes = [], [], set()
    for pool in pools:
        for inputs in _loaded(pool, keyed_order(pool)[:_LOOKED_AT]):
            images = images_of(inputs).to(dtype)
            sizes.add(small_size(tuple(images.shape[2:]), longest))
            flat = images.transpose(0, 1).flatten(1)
            lows.append(flat.min(1).values)
            highs.append(flat.max(1).values)
    if len(sizes) != 1:
        raise InputError(
            f"the labelled and unlabelled images have different sizes: {sorted(sizes)}"
        )
    (size,) = sizes
    shape = (-1, *(1 for _ in size))
    low, high = torch.stack(lows).min(0).values, torch.stack(highs).max(0).values
    return Scaling(low.reshape(shape), high.reshape(shape), size)


def _loaded(pool: PoolView, positions: Sequence[int]) -> Iterator[Inputs]:
    """Yield inputs in portions that the user finds small enough; the result is the same."""
    size = pool.lens.batch_size
    for start in range(0, len(positions), size):
        part = positions[start : start + size]
        inputs = pool.load(part)
        check_finite(inputs, [pool.ids[p] for p in part])
        yield inputs


def images_of(inputs: Inputs) -> Tensor:
    """Return a batch that is one tensor of images or volumes.

    Raises:
        InputError: If it is anything else.
    """
    if not isinstance(inputs, Tensor) or inputs.ndim not in (4, 5):
        found = list(inputs.shape) if isinstance(inputs, Tensor) else type(inputs).__name__
        raise InputError(
            f"an autoencoder takes images [N, C, H, W] or volumes [N, C, D, H, W], not {found}: "
            "use 'core-set' for samples of another kind"
        )
    return inputs


def small_size(size: tuple[int, ...], longest: int | None) -> tuple[int, ...]:
    """Return a size whose longest side is small enough, its proportions kept."""
    most = longest or _LARGEST[len(size)]
    if max(size) <= most:
        return size
    return tuple(max(4, round(side * most / max(size))) for side in size)


def resized(images: Tensor, size: tuple[int, ...]) -> Tensor:
    """Return images [N, C, ...] of another size, each pixel the mean over what it covers."""
    if images.shape[2:] == size:
        return images
    return functional.interpolate(images, size, mode="area")


def keyed_order(pool: PoolView) -> list[int]:
    """Return the positions of a pool in an order that its ids and seed alone decide."""
    draws = keyed_uniform(pool.seed, "order of images", pool.ids)[:, 0]
    return [int(i) for i in np.argsort(draws, kind="stable")]
