"""Losses of the user's own: functions of outputs, and of targets if they take some."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from steepest.core.memory import is_out_of_memory
from steepest.errors import InputError, ModelError, SteepestError, in_one_line
from steepest.modules import batches
from steepest.modules.batches import Inputs, tensors_in
from steepest.modules.checks import check_independence
from steepest.modules.rounding import Coarseness, allowed, differ, largest

_LOOKED_AT = 3
"""So many samples are enough for their losses to show that they depend on each other."""

_STEPS = 16
_FINEST = 1e-6
"""Of an output, by which a loss may be off in any case."""


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
            losses: What is to be measured; a loss that comes with the package is not looked at.

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
