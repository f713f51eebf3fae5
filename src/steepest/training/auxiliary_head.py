"""Auxiliary heads, trained along with a model by their own loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from torch import Tensor, nn

from steepest.modules.features import Features


class Extra(nn.Module, ABC):
    """A module whose loss is added to the task's while a model is trained.

    Its parameters are trained by the recipe, like the model's. Whether its loss reaches into the
    model is its own affair: it may detach what it is given.

    Attributes:
        maps: Whether it reads the maps of the model's blocks, and not the last feature alone.
    """

    maps: ClassVar[bool] = False

    @abstractmethod
    def loss(self, features: Features, losses: Tensor) -> Tensor:
        """Return the term added to the mean of the task's losses.

        Args:
            features: The model's output for B samples, with its graph.
            losses: The task's loss of each sample [B], with its graph.
        """

    def begin_epoch(self, epoch: int) -> str:
        """Get ready for an epoch, counted from 0.

        Returns:
            The name of its phase. Steps of one phase do the same work on every batch: a GPU
            records one of them and repeats it.
        """
        del epoch
        return ""
