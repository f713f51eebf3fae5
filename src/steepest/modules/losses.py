"""Per-sample losses whose gradient is measured, with and without labels.

All are computed from the logits in double precision: for saturated logits the gradient is a
difference of nearly equal numbers, and the logits are small next to the activations.
For dense outputs [N, C, ...] a sample's loss is the mean over its positions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

from steepest.errors import InputError, ModelError, UnknownNameError
from steepest.modules.batches import check_classes_second, logits_of
from steepest.modules.own_loss import OwnLoss

Loss = str | Callable[..., Tensor]
"""A name of this module, or a callable ``outputs[, targets] -> [N]``."""

RowLosses = Callable[[Any, slice], list[Tensor]]
"""Maps a model's outputs for some rows of the batch to one or more losses, each [N]."""

UNKNOWN = -100
"""Target value of a position without a label."""

T = TypeVar("T")

TrainingLoss = Callable[[Tensor, Tensor], Tensor]
"""Maps logits [N, C, ...] and targets [N, ...] to the loss of every label [N, ...]."""


def entropy(logits: Tensor) -> Tensor:
    """Entropy of the softmax, H(p) = −Σ_i p_i log p_i.

    Args:
        logits: [N, C, ...].

    Returns:
        [N].
    """
    log_p = F.log_softmax(logits.double(), dim=1)
    # A class that a mask rules out has no share, where 0 · log 0 would be NaN.
    told = log_p.masked_fill(log_p.isneginf(), 0.0)
    return _mean_over_positions(-(log_p.exp() * told).sum(1))


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy with given labels, −log p_y.

    Args:
        logits: [N, C, ...].
        targets: [N, ...]. Of several positions those with −100 do not count.

    Returns:
        [N].
    """
    return mean_over_known(pointwise_cross_entropy(logits.double(), targets), targets)


def pointwise_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy of every label, −log p_y; the usual training loss.

    Args:
        logits: [N, C, ...].
        targets: [N, ...].

    Returns:
        [N, ...].
    """
    return F.cross_entropy(logits, targets, reduction="none")


def pseudo_label(logits: Tensor) -> Tensor:
    """Cross-entropy with the model's own most likely label, −log max_i p_i.

    Args:
        logits: [N, C, ...].

    Returns:
        [N].
    """
    return cross_entropy(logits, logits.argmax(1))


def expected(logits: Tensor, training_loss: TrainingLoss = pointwise_cross_entropy) -> Tensor:
    """Training loss in expectation over the model's posterior, Σ_i p_i L(z, i).

    The posterior stays in the graph. With plain cross-entropy this is the entropy; with p held
    constant its gradient would be zero.

    Args:
        logits: [N, C, ...].
        training_loss: The loss L, without any reduction.

    Returns:
        [N].
    """
    logits = logits.double()
    p = logits.softmax(1)
    shape = (len(logits), *logits.shape[2:])
    total = torch.zeros_like(p[:, 0])
    for label in range(logits.shape[1]):
        targets = torch.full(shape, label, dtype=torch.long, device=logits.device)
        values = _per_position(training_loss, logits, targets)
        ruled_out = values.isinf() & (p[:, label] == 0)  # As in the entropy.
        total = total + p[:, label] * values.masked_fill(ruled_out, 0.0)
    return _mean_over_positions(total)


def each_label(
    logits: Tensor, training_loss: TrainingLoss = pointwise_cross_entropy
) -> list[Tensor]:
    """Training loss under each label that a sample might have.

    Args:
        logits: [N, C].
        training_loss: The loss L.

    Returns:
        C losses, each [N].

    Raises:
        ModelError: For dense outputs, which have one label per position.
    """
    logits = one_label_each(logits)
    labels = [torch.full_like(logits[:, 0], c, dtype=torch.long) for c in range(logits.shape[1])]
    return [training_loss(logits.double(), label) for label in labels]


def one_label_each(logits: Tensor) -> Tensor:
    """Return logits [N, C] as they are.

    Raises:
        ModelError: For dense outputs, which have one label per position.
    """
    if logits.ndim != 2:
        raise ModelError(
            "a loss for each label needs one label per sample, but the logits have shape "
            f"{list(logits.shape)}: use 'entropy-gradnorm' for dense outputs"
        )
    return logits


def one_per_task(build: Callable[[T], RowLosses]) -> Callable[[T], RowLosses]:
    """Let a builder return the same function for the same task, batch after batch.

    A GPU then knows that what it does can be recorded.
    """
    remembered: Callable[[Any], RowLosses] = lru_cache(maxsize=1)(build)

    def built(task: T) -> RowLosses:
        try:
            return remembered(task)
        except TypeError:  # It has no hash, as mutable dataclasses have none.
            return build(task)

    return built


def resolve(loss: Loss, targets: Tensor | None, total: int, *, checked: bool = True) -> RowLosses:
    """Turn the public ``loss`` argument into a function of outputs and rows.

    Args:
        loss: A name or a callable.
        targets: Labels [N, ...] or None.
        total: The number of samples N that targets must cover.
        checked: Whether to look into the targets, for which a GPU has to be waited for.

    Raises:
        InputError: If targets are missing, too many, or of the wrong number.
    """
    if targets is not None and len(targets) != total:
        raise InputError(f"{len(targets)} targets for {total} samples: one target each is needed")
    if callable(loss):
        return OwnLoss(loss, targets, total)
    if loss == "cross-entropy":
        if targets is None:
            raise InputError("loss='cross-entropy' needs targets; without labels use 'entropy'")
        labels = targets
        if not checked:
            return lambda out, rows: [cross_entropy(_logits(out, rows), labels[rows].long())]
        return lambda out, rows: [cross_entropy(*_checked(_logits(out, rows), labels[rows]))]
    without_labels = {"entropy": entropy, "expected": expected, "pseudo-label": pseudo_label}
    if not isinstance(loss, str):
        raise InputError(f"loss must be a name or a callable, not {type(loss).__name__}")
    if loss not in without_labels:
        raise UnknownNameError("loss", loss, [*without_labels, "cross-entropy"])
    if targets is not None:
        raise InputError(f"loss={loss!r} takes no targets; use loss='cross-entropy' with them")
    function = without_labels[loss]
    return lambda out, rows: [function(_logits(out, rows))]


def _logits(outputs: Any, rows: slice) -> Tensor:  # noqa: ANN401
    logits = logits_of(outputs)
    check_classes_second(outputs)
    if len(logits) != rows.stop - rows.start:
        raise ModelError(
            f"the model returned {len(logits)} rows of logits for {rows.stop - rows.start} "
            "samples: it must return one for each"
        )
    return logits


def _checked(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    classes = logits.shape[1]
    targets = targets.to(logits.device)
    if targets.is_floating_point() or targets.is_complex():
        raise InputError(f"targets must be class numbers, not {targets.dtype}")
    targets = targets.long()
    if targets.shape[1:] != logits.shape[2:]:
        # Some samples are looked at by themselves: their number would say nothing.
        given, made, wanted = (
            ", ".join(["N", *map(str, shape)])
            for shape in (targets.shape[1:], logits.shape[1:], logits.shape[2:])
        )
        raise InputError(
            f"targets have shape [{given}], but logits [{made}] need [{wanted}]: "
            "give one class number for each position"
        )
    known = targets if targets.ndim < 2 else targets[targets != UNKNOWN]
    if known.numel() and (int(known.max()) >= classes or int(known.min()) < 0):
        raise InputError(
            f"targets run from {int(known.min())} to {int(known.max())}, but the model has "
            f"{classes} classes (0 to {classes - 1}){_of_maps(logits)}"
        )
    return logits, targets


def _of_maps(logits: Tensor) -> str:
    if logits.ndim == 2:
        return ""
    task = f"Segmentation({logits.shape[1]})"
    return f": for maps with 255 where no class is known, give loss={task}.training_loss"


def _per_position(loss: TrainingLoss, logits: Tensor, targets: Tensor) -> Tensor:
    values = loss(logits, targets)
    if values.shape != targets.shape:
        raise InputError(
            f"the training loss gave shape {list(values.shape)} for labels of shape "
            f"{list(targets.shape)}: it must not reduce"
        )
    return values


def mean_over_known(values: Tensor, targets: Tensor) -> Tensor:
    """Return the mean over the positions that have a label [N], 0 without any.

    Args:
        values: Of every position [N, ...], 0 where the label is unknown.
        targets: Labels [N, ...]; −100 is none, as torch and Hugging Face have it.
    """
    if values.ndim < 2:
        return values
    known = (targets != UNKNOWN).flatten(1).sum(1).clamp_min(1)
    return values.flatten(1).sum(1) / known


def _mean_over_positions(values: Tensor) -> Tensor:
    return values.flatten(1).mean(1) if values.ndim > 1 else values
