"""Find the torch model inside a scikit-learn estimator, such as skorch's."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from steepest.errors import InputError
from steepest.modules.batches import call


class LogOutputs(nn.Module):
    """A model that returns probabilities, as one that returns their logarithms.

    Args:
        model: Returns probabilities [N, C], as skorch expects it with ``NLLLoss``.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Any) -> Tensor:  # noqa: ANN401
        """Return logarithms [N, C]: of what skorch's own loss takes them of."""
        found: Tensor = call(self.model, inputs)
        return torch.log(found + torch.finfo(found.dtype).eps)


def torch_inside(estimator: Any, inputs: Any) -> tuple[nn.Module, Any] | None:  # noqa: ANN401
    """Return an estimator's torch module that gives logits, and what it is shown.

    Args:
        estimator: Fitted; a pipeline is looked at by its last step, a search by what it found.
        inputs: What the estimator is shown.

    Returns:
        None if there is no module inside.

    Raises:
        InputError: If it is not clear what the module's outputs mean.
    """
    if hasattr(estimator, "best_estimator_"):
        return torch_inside(estimator.best_estimator_, inputs)  # Of a search over parameters.
    if hasattr(estimator, "steps") and hasattr(estimator, "__getitem__"):
        last = estimator.steps[-1][1]
        if not isinstance(getattr(last, "module_", None), nn.Module):
            return None
        steps = estimator[:-1]
        return torch_inside(last, steps.transform(inputs) if steps.steps else inputs)
    module = getattr(estimator, "module_", None)
    if not isinstance(module, nn.Module):
        return None
    criterion = getattr(estimator, "criterion_", None)
    if isinstance(criterion, nn.CrossEntropyLoss):
        return module, inputs
    if isinstance(criterion, nn.NLLLoss):
        return LogOutputs(module), inputs
    raise InputError(
        f"what the module's outputs mean is not clear from {type(criterion).__name__}: train it "
        "with CrossEntropyLoss on logits, or with NLLLoss on probabilities"
    )
