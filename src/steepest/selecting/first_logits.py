"""Checks on the first logits of a selection, made during its pass over the pool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from steepest.modules.probabilities import look_like_probabilities, warn_of_probabilities
from steepest.strategies import Batch, PoolView
from steepest.strategies.algorithms.verdict import check_names
from steepest.strategies.view import Prediction


@dataclass
class FirstLook:
    """Observations on the first logits of a selection.

    Attributes:
        done: Whether logits were seen.
        probabilities: Whether they look like probabilities.
        class_names: The names of the classes [C], if they are known.
    """

    done: bool = False
    probabilities: bool = False
    class_names: tuple[str, ...] = ()

    def note(self, logits: Tensor | None) -> None:
        """Look at the logits of a batch [N, C, ...] if they are the first.

        Raises:
            InputError: If the number of class names differs from that of classes.
        """
        if not self.done and logits is not None:
            if logits.ndim == 2:
                check_names(self.class_names, logits.shape[1])
            self.done, self.probabilities = True, look_like_probabilities(logits)

    def warn(self, stacklevel: int) -> None:
        """Warn if the logits look like probabilities.

        Args:
            stacklevel: Where the user's call is, as seen from the caller.
        """
        if self.probabilities:
            warn_of_probabilities(stacklevel + 1)


class WatchedView(PoolView):
    """Samples under the present model, with a check of the first logits.

    Args:
        first: Shared by all views of one selection.
        parts: Arguments of ``PoolView``.
        more: Its keyword arguments.
    """

    def __init__(self, first: FirstLook, *parts: Any, **more: Any) -> None:  # noqa: ANN401
        super().__init__(*parts, **more)
        self.first = first

    def _prediction(self, batch: Batch) -> Prediction | None:
        self.first.note(batch.known_logits)
        return super()._prediction(batch)
