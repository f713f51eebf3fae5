"""Estimators of scikit-learn: checks, fitting, and the torch model inside."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from steepest.errors import InputError
from steepest.modules.batches import call


def check_classifier(estimator: Any) -> None:  # noqa: ANN401
    """Raise if an estimator is not a classifier.

    Raises:
        InputError: If it is none; the message names its type.
    """
    from sklearn.base import is_regressor

    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise InputError(f"the estimator is {estimator!r}: give a classifier, as SVC()")
    if is_regressor(estimator):
        raise InputError(
            f"{type(estimator).__name__} is a regressor, and samples are chosen by the "
            "probabilities of classes: give a classifier"
        )


def fit_clone(estimator: Any, rows: Any, known: npt.NDArray[Any]) -> Any:  # noqa: ANN401
    """Fit a clone; the first labels may well be of one class, which many cannot learn.

    Args:
        estimator: Not changed.
        rows: Labelled samples [N, ...].
        known: Their labels [N].

    Returns:
        A ``DummyClassifier`` in place of a classifier that cannot learn a single class.
    """
    from sklearn.base import clone

    try:
        return clone(estimator).fit(rows, known)
    except ValueError as error:
        if len(np.unique(known)) > 1 or "class" not in str(error):
            raise
        from sklearn.dummy import DummyClassifier

        return DummyClassifier().fit(rows, known)


class LogOutputs(nn.Module):
    """A model that returns probabilities, as one that returns their logarithms.

    Args:
        model: Returns probabilities [N, C], as skorch expects it with ``NLLLoss``.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Any) -> Tensor:  # noqa: ANN401
        """Return logarithms [N, C], of the same values as skorch's own loss."""
        found: Tensor = call(self.model, inputs)
        return torch.log(found + torch.finfo(found.dtype).eps)


def torch_inside(estimator: Any, inputs: Any) -> tuple[nn.Module, Any] | None:  # noqa: ANN401
    """Return an estimator's torch module that returns logits, and its inputs.

    Args:
        estimator: A fitted estimator; of a pipeline the last step is used, of a search the best
            estimator.
        inputs: The inputs of the estimator.

    Returns:
        None if there is no module inside.

    Raises:
        InputError: If the meaning of the module's outputs is unclear.
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
        f"the meaning of the module's outputs is not clear from "
        f"{type(criterion).__name__}: train it "
        "with CrossEntropyLoss on logits, or with NLLLoss on probabilities"
    )
