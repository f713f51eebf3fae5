"""A head that predicts how large a sample's loss is, compared with other samples' losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from steepest.core.seeds import derive
from steepest.core.torch_settings import own_randomness
from steepest.errors import InputError, ModelError
from steepest.modules.batches import Inputs
from steepest.modules.features import Features, extract_features
from steepest.modules.preserve import evaluating
from steepest.training.auxiliary_head import Extra

_WIDTH = 128
"""Features that are made of each map."""

MARGIN = 1.0
"""Margin of the pairwise ranking loss."""


class LossHead(Extra):
    """Predicts losses from the means of a model's maps: only their order is learnt.

    The mean over all positions of each map goes through its own linear layer; a last one
    reads all of them together. Maps of any size and number of dimensions do.

    Args:
        channels: Of each map [M].
        joint_epochs: In so many epochs its loss reaches into the model; later, the maps are taken
            as they are.
    """

    maps: ClassVar[bool] = True

    def __init__(self, channels: Sequence[int], joint_epochs: int = 0) -> None:
        super().__init__()
        self.channels = tuple(channels)
        self.branches = nn.ModuleList(nn.Linear(c, _WIDTH) for c in channels)
        self.last = nn.Linear(_WIDTH * len(self.channels), 1)
        self._joint_epochs = joint_epochs
        self._is_joint = joint_epochs > 0

    def forward(self, maps: Sequence[Tensor]) -> Tensor:
        """Map the maps of N samples, each [N, C, ...], to predicted losses [N]."""
        return self.from_means(self.means_of(maps))

    def means_of(self, maps: Sequence[Tensor]) -> Tensor:
        """Return the means over the positions of all maps, side by side [N, sum of channels].

        Raises:
            ModelError: If maps have other channels than those that the head was made for.
        """
        for found, wanted in zip(maps, self.channels, strict=True):
            if found.shape[1] != wanted:
                raise ModelError(
                    f"a map has {found.shape[1]} channels where others have {wanted}: the model's "
                    "block_layers must return [N, C, ...], channels before positions"
                )
        kind = self.last.weight.dtype
        flat = [m.flatten(2) if m.ndim > 2 else m[:, :, None] for m in maps]
        return torch.cat([m.mean(2, dtype=kind) for m in flat], dim=1)

    def from_means(self, means: Tensor) -> Tensor:
        """Map the means of maps [N, sum of channels] to predicted losses [N]."""
        parts = torch.split(means, list(self.channels), dim=1)
        read = [functional.relu(b(p)) for b, p in zip(self.branches, parts, strict=True)]
        predicted: Tensor = self.last(torch.cat(read, dim=1))
        return predicted[:, 0]

    def loss(self, features: Features, losses: Tensor) -> Tensor:
        """Return the ranking loss of a batch."""
        maps = features.maps if self._is_joint else [m.detach() for m in features.maps]
        return ranking_loss(self(maps), losses)

    def begin_epoch(self, epoch: int) -> str:
        """Decide whether the loss of this epoch reaches into the model."""
        self._is_joint = epoch < self._joint_epochs
        return "joint" if self._is_joint else "detached"


def ranking_loss(predicted: Tensor, losses: Tensor) -> Tensor:
    """Return the mean hinge loss over pairs: the order of predictions should be that of losses.

    Sample i is paired with sample B − 1 − i; of an odd number the last one is left out. A pair of
    equal losses counts as if the second were larger.

    Args:
        predicted: Predicted losses [B].
        losses: The losses themselves [B]; no gradient flows into them.
    """
    pairs = len(predicted) // 2
    if pairs == 0:
        return predicted.sum() * 0
    gap, wanted = _gaps(predicted, pairs), _gaps(losses.detach(), pairs)
    sign = torch.where(wanted > 0, 1.0, -1.0).to(gap)
    return functional.relu(MARGIN - sign * gap).mean()


def make_loss_head(model: nn.Module, images: Inputs, seed: int, joint_epochs: int = 0) -> LossHead:
    """Make a head that fits a model's maps, with first weights by a seed.

    Args:
        model: Left unchanged.
        images: A few inputs that it takes.
        seed: Decides the first weights.
        joint_epochs: As for the head.

    Raises:
        ModelError: If the model does not say which blocks make its maps.
    """
    with evaluating(model):
        maps = extract_features(model, images, maps=True).maps
    with own_randomness(derive(seed, "loss head"), torch.device("cpu")):
        head = LossHead([m.shape[1] for m in maps], joint_epochs)
    return head.to(maps[0].device)


def fit_loss_head(
    head: LossHead, means: Tensor, losses: Tensor, *, epochs: int, batch_size: int, seed: int
) -> None:
    """Teach a head the order of known losses, in place.

    Args:
        head: On the device of the means.
        means: Its inputs for each sample [N, sum of channels].
        losses: Of each sample [N].
        epochs: Passes over the samples.
        batch_size: Samples in one step.
        seed: Decides the order.

    Raises:
        InputError: If there is no pair of samples.
    """
    if len(means) < 2:
        raise InputError("the order of losses takes two samples to learn: label at least 2")
    optimizer = torch.optim.Adam(head.parameters(), 1e-3)
    with own_randomness(derive(seed, "fit loss head"), means.device):
        for _ in range(epochs):
            order = torch.randperm(len(means)).to(means.device)
            for rows in torch.split(order, batch_size):
                loss = ranking_loss(head.from_means(means[rows]), losses[rows])
                optimizer.zero_grad()
                torch.autograd.backward(loss)
                optimizer.step()
    optimizer.zero_grad()


def _gaps(values: Tensor, pairs: int) -> Tensor:
    """Return first less second of each pair [P], the outermost pair first."""
    even = values[: 2 * pairs]
    return even[:pairs] - even[pairs:].flip(0)
