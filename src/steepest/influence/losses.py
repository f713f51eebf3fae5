"""The loss of one sample, with its label or without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

from torch import Tensor

from steepest.errors import InputError, UnknownNameError
from steepest.tasks.base import Losses

SampleLoss = (
    Literal["true-label", "pseudo-label", "entropy", "expected"]
    | Callable[[Tensor, Tensor | None], Tensor]
)
"""A loss by name (of the label, the predicted label, or label-free), or ``z, y -> [N]``."""

Function = Callable[[Tensor, Tensor | None], Tensor]
_NAMES = get_args(get_args(SampleLoss)[0])


def loss_function(task: Losses, loss: SampleLoss = "true-label") -> Function:
    """Return the loss of each sample [N] as a function of logits [N, C, ...] and targets.

    It is computed in double precision, where the logits of sure samples still differ.

    Raises:
        UnknownNameError: If there is no such loss; names the nearest.
        InputError: When it is called, if targets are missing or the samples are summed.
    """
    if not callable(loss) and loss not in _NAMES:
        raise UnknownNameError("loss", str(loss), _NAMES)

    def function(logits: Tensor, targets: Tensor | None) -> Tensor:
        exact = logits.double()
        values = loss(exact, targets) if callable(loss) else _named(task, loss, exact, targets)
        if values.shape != logits.shape[:1]:
            raise InputError(
                f"the loss gave shape {list(values.shape)} for {len(logits)} samples: it must "
                "give one value each"
            )
        return values

    return function


def _named(task: Losses, loss: str, logits: Tensor, targets: Tensor | None) -> Tensor:
    if loss == "entropy":
        return task.entropy(logits)
    if loss == "expected":
        return task.expected_loss(logits)
    if loss == "pseudo-label":
        return task.training_loss(logits, task.distributions(logits).detach().argmax(1))
    if targets is None:
        raise InputError("the loss 'true-label' needs targets: use 'pseudo-label' or 'entropy'")
    return task.training_loss(logits, targets)
