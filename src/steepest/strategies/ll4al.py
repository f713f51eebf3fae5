"""A loss that a head beside the model predicts."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from steepest.core.memory import is_out_of_memory
from steepest.errors import InputError
from steepest.modules.features import extract_features
from steepest.strategies.base import Needs, Scorer, Strategy, strategy
from steepest.strategies.batch import Batch
from steepest.strategies.networks.loss_head import LossHead, fit_loss_head, make_loss_head
from steepest.strategies.support import Support
from steepest.strategies.view import Columns, PoolView
from steepest.training.auxiliary_head import Extra

Training = Literal["joint", "detached", "off"]
"""Effect of the head on the training of the model."""

_AT_ONCE = 64
_BATCH_SIZE = 128


@strategy("ll4al")
@dataclass(frozen=True)
class LearningLoss(Scorer):
    """Loss that is predicted from the model's maps: score(x) = l̂(maps of x).

    A head reads the mean of each of the model's maps and learns the order of the losses within a
    batch: for pairs (i, j), max(0, 1 − sgn(l_i − l_j) (l̂_i − l̂_j)), added to the task's loss. It
    changes the training of the model, unless disabled. A head that was not trained along with
    the model is fitted to the losses of the labelled samples afterwards.

    Attributes:
        training: "joint": the head is trained along with the model, and its loss reaches into the
            model. "detached": it is trained along, and the model is what it would be without it.
            "off": it is fitted afterwards, to the maps and losses of the labelled samples.
        detach_after: The last epoch, counted from 0, in which the head's loss reaches into the
            model. The published number for 200 epochs; take about 60 % of yours.
        epochs: Passes over the labelled samples of a head that is fitted afterwards.
    """

    trains: ClassVar[str] = "a head, along with the model"

    training: Training = "joint"
    detach_after: int = 120
    epochs: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.detach_after < 0:
            raise InputError(
                f"ll4al: detach_after must be 0 or more, not {self.detach_after}; "
                'training="detached" keeps the head out of the model from the beginning'
            )
        if self.epochs < 1:
            raise InputError(f"ll4al: epochs must be 1 or more, not {self.epochs}")

    @property
    def needs(self) -> Needs:
        """Maps alone beside a head that was trained along: no label has to be read again."""
        return self.needs_alone if self.training == "off" else Needs.MAPS

    @property
    def needs_alone(self) -> Needs:
        """Maps, and labels to fit a head to."""
        return Needs.MAPS | Needs.LABELLED | Needs.TARGETS

    def make_extra(self, model: nn.Module, images: Tensor, seed: int) -> Extra | None:
        """Make the head that is trained along with the model."""
        if self.training == "off":
            return None
        joint_epochs = self.detach_after + 1 if self.training == "joint" else 0
        return make_loss_head(model, images, seed, joint_epochs)

    def prepare(self, pool: PoolView) -> LossHead:
        """Return the head that was trained along, or one that is fitted now.

        Raises:
            InputError: If there is neither such a head nor a label to fit one to.
        """
        extra = pool.support.extra
        if isinstance(extra, LossHead) and self.training != "off":
            placed = next(extra.parameters()).device == pool.device
            return extra if placed else copy.deepcopy(extra).to(pool.device)
        return self._fit(pool)

    def score(self, batch: Batch) -> Tensor:
        """Return predicted losses [N]."""
        head: LossHead = batch.prepared
        with torch.no_grad():
            predicted: Tensor = head(batch.maps)
        return predicted

    def check(self, pool: PoolView) -> None:
        """Look whether the model has maps."""
        Strategy.check(self, pool)

    def _fit(self, pool: PoolView) -> LossHead:
        labelled, known = pool.labelled, pool.support.targets
        if labelled is None or any(i not in known for i in labelled.ids):
            raise InputError(
                "ll4al has no head that was trained with the model, and no labels to fit one to: "
                "give those of the labelled samples by --labelled FILE with id,label, or in Python "
                "by support=Support(targets={id: label, …})"
            )
        with torch.inference_mode(mode=False), torch.enable_grad():
            few = labelled.load(range(min(2, len(labelled))))
            head = make_loss_head(pool.model, few, pool.seed)
            # Half precision is enough for maps, but not for the steps of a training.
            head = head.to(torch.promote_types(pool.lens.dtype, torch.float32))
            found = self._read(labelled, head)
            fit_loss_head(
                head,
                found["means"].to(pool.device),
                found["losses"].to(pool.device),
                epochs=self.epochs,
                batch_size=_BATCH_SIZE,
                seed=pool.seed,
            )
        return head

    def _read(self, labelled: PoolView, head: LossHead) -> Columns:
        """Return the head's inputs for the labelled samples, and their losses."""
        known = Support(targets=labelled.support.targets)

        def read(batch: Batch) -> Columns:
            targets = known.targets_of(batch.ids)
            found = extract_features(batch.model, batch.inputs, maps=True)
            with torch.no_grad():
                losses = _losses(batch, found.logits, targets)
                return {"means": head.means_of(found.maps), "losses": losses}

        return labelled.collect(read, "reading losses for ll4al", size=_AT_ONCE)


def _losses(batch: Batch, logits: Tensor, targets: Tensor) -> Tensor:
    """Return the task's losses of labelled samples [N].

    Raises:
        InputError: If the targets are none of the task.
    """
    try:
        return batch.task.training_loss(logits, targets.to(logits.device))
    except (RuntimeError, IndexError, ValueError) as error:
        if is_out_of_memory(error):
            raise
        raise InputError(
            f"ll4al: Support.targets are no targets for logits {list(logits.shape)}: give the "
            f"number of a class, from 0, or what the task learns from ({error})"
        ) from error
