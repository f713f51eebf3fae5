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

from steepest.core.memory import is_out_of_memory
from steepest.errors import InputError, ModelError, SteepestError, UnknownNameError, in_one_line
from steepest.modules import batches
from steepest.modules.batches import Inputs, check_classes_second, logits_of, tensors_in
from steepest.modules.checks import check_independence
from steepest.modules.precision import Coarseness, allowed, differ, largest

Loss = str | Callable[..., Tensor]
"""A name of this module, or a callable ``outputs[, targets] -> [N]``."""

RowLosses = Callable[[Any, slice], list[Tensor]]
"""Maps a model's outputs for some rows of the batch to one or more losses, each [N]."""

UNKNOWN = -100
"""Target value of a position without a label."""

T = TypeVar("T")

TrainingLoss = Callable[[Tensor, Tensor], Tensor]
"""Maps logits [N, C, ...] and targets [N, ...] to the loss of every label [N, ...]."""
_LOOKED_AT = 3
"""So many samples are enough for their losses to show that they depend on each other."""

_STEPS = 16
_FINEST = 1e-6
"""Of an output, by which a loss may be off in any case."""


def entropy(logits: Tensor) -> Tensor:
    """Entropy of the softmax, H(p) = −Σ_i p_i log p_i.

    Args:
        logits: [N, C, ...].

    Returns:
        [N].
    """
    log_p = F.log_softmax(logits.double(), dim=1)
    # A class that a mask rules out has no share, where 0 · log 0 would be NaN.
    text = log_p.masked_fill(log_p.isneginf(), 0.0)
    return _mean_over_positions(-(log_p.exp() * text).sum(1))


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


class OwnLoss:
    """A loss of the user's own as one for some rows of a batch.

    Args:
        function: ``outputs[, targets] -> [N]``.
        targets: Labels [N, ...], or None if it takes none.
        total: The number of samples in the batch.
    """

    def __init__(self, function: Callable[..., Tensor], targets: Tensor | None, total: int) -> None:
        self.function, self._targets, self._total = function, targets, total

    def __call__(self, outputs: Any, rows: slice) -> list[Tensor]:  # noqa: ANN401
        """Return the losses of some rows [n], as the only one.

        Raises:
            InputError: If the function fails, or gives something else.
        """
        given = () if self._targets is None else (self._targets[rows],)
        count = rows.stop - rows.start
        try:
            values: Any = self.function(outputs, *given)
        except SteepestError:
            raise
        except Exception as error:
            if is_out_of_memory(error):
                raise
            some = f"{count} of {self._total} samples" if count < self._total else "the batch"
            raise InputError(
                f"the loss failed on {some} ({in_one_line(error)}): {self._about_labels()}"
            ) from error
        if not isinstance(values, Tensor) or tuple(values.shape) != (count,):
            raise InputError(
                f"the loss must return one value per sample, {self._wrong(values, count)}"
            )
        return [values]

    def _about_labels(self) -> str:
        if self._targets is not None:
            return "it is called as loss(outputs, targets), with any number of samples"
        return (
            "it is called with any number of samples; labels that it needs go into targets=, to a "
            "loss(outputs, targets)"
        )

    def _wrong(self, values: object, count: int) -> str:
        if not isinstance(values, Tensor):
            return f"shape [N], but gave {type(values).__name__}: let it return a tensor"
        if values.ndim == 0:
            return "shape [N], but gave a single number for all: use reduction='none'"
        if values.shape[0] == count:
            shape = ", ".join(["N", *map(str, values.shape[1:])])
            remedy = "add up what belongs to a sample, as by .flatten(1).sum(1)"
            return f"shape [N], but gave [{shape}]: {remedy}"
        return f"but gave {list(values.shape)} for {count}: {self._about_labels()}"


class IndependenceCheck:
    """Checks once that a loss of the user's own treats each sample by itself."""

    def __init__(self) -> None:
        self._fine: Callable[..., Tensor] | None = None

    def check(self, call: Callable[[Inputs], Any], inputs: Inputs, losses: object) -> None:
        """Hold losses of a few samples against those of each of them alone.

        Args:
            call: Returns the outputs of the model.
            inputs: N samples.
            losses: The loss to measure; a loss that comes with the package is not looked at.

        Raises:
            InputError: If they differ.
            ModelError: If the outputs do.
        """
        total = batches.count(inputs)
        if not isinstance(losses, OwnLoss) or losses.function is self._fine or total < 2:
            return
        where = batches.tensors_of(inputs)[0].device
        rows = torch.linspace(0, total - 1, min(_LOOKED_AT, total)).round().long().to(where)
        some = batches.take(inputs, rows)
        singles = [batches.take(some, slice(row, row + 1)) for row in range(len(rows))]
        try:
            with Coarseness() as seen:
                outputs = call(some)
                alone = [call(single) for single in singles]
        except (ModelError, RuntimeError, MemoryError) as error:
            if isinstance(error, ModelError) or is_out_of_memory(error):
                return  # It may want whole batches, or there is no room for several samples.
            raise
        for row, one in enumerate(alone):
            check_independence(one, outputs, row, coarseness=seen.worst)
        (among,) = losses(outputs, slice(0, len(rows)))
        found = torch.cat([losses(one, slice(i, i + 1))[0] for i, one in enumerate(alone)])
        _compare(found.detach(), among.detach(), outputs, seen.worst)
        self._fine = losses.function


def _compare(alone: Tensor, among: Tensor, outputs: Any, coarseness: float) -> None:  # noqa: ANN401
    floats = [tensor for tensor in tensors_in(outputs) if tensor.is_floating_point()]
    scale = max((float(largest(tensor.detach())) for tensor in floats), default=1.0)
    within = allowed(1e-3, coarseness) * torch.maximum(alone.abs(), among.abs())
    off = differ(alone, among, within + max(_FINEST, _STEPS * coarseness) * scale)
    if bool(off.any()):
        row = int(off.nonzero()[0])
        raise InputError(
            f"the loss of a sample is {float(alone[row]):.4g} alone and {float(among[row]):.4g} "
            "beside others, so a per-sample gradient is not defined: give a loss that looks at "
            "each sample by itself, takes no other samples of the batch for negatives and does "
            "not divide by their number"
        )
