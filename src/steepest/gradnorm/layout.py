"""Where the samples of a batch are in a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Layout:
    """The samples are along one dimension, of size ``outer`` · N · ``inner``.

    ``nn.MultiheadAttention`` works on [L, N, D]: dimension 1. Windows of an image are often
    [N · W, ...], frames of a clip [N · F, ...]: dimension 0 with ``inner`` W or F.

    Attributes:
        dim: The dimension.
        outer: How often the samples repeat along it.
        inner: How many neighbours along it belong to one sample.
    """

    dim: int = 0
    outer: int = 1
    inner: int = 1

    @property
    def repeats(self) -> int:
        """How many places along the dimension belong to one sample."""
        return self.outer * self.inner

    def fits(self, shape: Sequence[int], samples: int) -> bool:
        """Say whether a tensor of this shape can hold so many samples in this way."""
        return len(shape) > self.dim and shape[self.dim] == self.outer * self.inner * samples

    def first(self, tensor: Tensor, samples: int) -> Tensor:
        """Bring the samples to the front.

        Args:
            tensor: [..., outer · N · inner, ...].
            samples: N.

        Returns:
            [N, ..., outer · inner, ...]: one dimension more, the others in their order.
        """
        if self.dim == 0 and self.outer == self.inner == 1 and tensor.shape[0] == samples:
            return tensor.unsqueeze(1)  # Most often they are, and it takes no more.
        split = self._split(tensor, samples)
        return split.movedim(self.dim + 1, 0).flatten(self.dim + 1, self.dim + 2)

    def one(self, tensor: Tensor, sample: int, samples: int) -> Tensor:
        """Return a single sample's part [..., outer · inner, ...] of a tensor."""
        split = self._split(tensor, samples)
        return split.select(self.dim + 1, sample).flatten(self.dim, self.dim + 1)

    def _split(self, tensor: Tensor, samples: int) -> Tensor:
        before, after = tensor.shape[: self.dim], tensor.shape[self.dim + 1 :]
        return tensor.reshape(*before, self.outer, samples, self.inner, *after)


def find_layouts(small: Sequence[int], n: int, large: Sequence[int], m: int) -> list[Layout]:
    """Return the layouts that explain the shapes of one tensor for two batch sizes.

    Args:
        small: The shape for n samples.
        n: A batch size.
        large: The shape for m samples.
        m: Another batch size.

    Returns:
        None if nothing or too much changes with the batch; two if the order is left open.
    """
    if len(small) != len(large):
        return []
    changed = [d for d, (a, b) in enumerate(zip(small, large, strict=True)) if a != b]
    if len(changed) != 1:
        return []
    (dim,) = changed
    share, rest = divmod(small[dim], n)
    if rest or share * m != large[dim] or not share:
        return []
    if share == 1:
        return [Layout(dim)]
    return [Layout(dim, inner=share), Layout(dim, outer=share)]
