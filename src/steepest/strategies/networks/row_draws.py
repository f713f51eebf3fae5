"""Draws the samples of each training step."""

from __future__ import annotations

import torch
from torch import Tensor

from steepest.core.seeds import generator


class RowDraws:
    """Batches of rows in a new order each epoch, without replacement within an epoch.

    Batch i depends on the seed and the name alone. What does not fill a batch is left out of an
    epoch, so that all batches are of one size.

    Args:
        count: How many rows there are.
        batch_size: Rows in a batch, if there are that many.
        seed: Decides the orders.
        name: Tells this from other draws of the seed.
        device: The device of the rows.
    """

    def __init__(
        self, count: int, batch_size: int, seed: int, name: str, device: torch.device
    ) -> None:
        self.batch_size = min(batch_size, count)
        self._count = count
        self._seed = seed
        self._name = name
        self._device = device
        self._epoch = -1
        self._order = torch.empty(0, dtype=torch.long)

    def batch(self, number: int) -> Tensor:
        """Return the rows of a batch, counted from 0 [B]."""
        epoch, place = divmod(number, self._count // self.batch_size)
        if epoch != self._epoch:
            random = generator(self._seed, "rows", self._name, epoch)
            # Moved once an epoch: a copy for each batch would make the device wait.
            self._order = torch.randperm(self._count, generator=random).to(self._device)
            self._epoch = epoch
        return self._order[place * self.batch_size : (place + 1) * self.batch_size]
