"""The pool as a model sees it while choosing: normalised, not augmented, without labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor

from steepest.datasets import ImageSet
from steepest.scoring.samples import Samples
from steepest.training.augment import normalise


def pool_view(data: ImageSet) -> Samples:
    """Return the training images as a pool."""

    def load(positions: Sequence[int], size: int) -> Iterator[Tensor]:
        for start in range(0, len(positions), size):
            rows = list(positions[start : start + size])
            yield normalise(data.train_images[rows], data.mean, data.std)

    return Samples(data.ids, load)
