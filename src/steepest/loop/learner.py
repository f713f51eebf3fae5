"""The trainer of a loop, and the model or predictions it leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from torch import nn

from steepest.core.seeds import SampleId
from steepest.errors import InputError
from steepest.loop.chooser import Chooser, with_targets
from steepest.loop.predictions import Predict, check_predictable
from steepest.pool import Label
from steepest.selecting.options import DEFAULT_STRATEGY, as_strategy, check_support
from steepest.selecting.pool_view import check_model
from steepest.selecting.selection import Selection
from steepest.strategies import Needs, Strategy, Support
from steepest.strategies.support import NO_SUPPORT

Fit = Callable[[list[SampleId], list[Label]], Any]
"""Trains on labelled samples; returns a torch module, or None."""


class Learner:
    """A trainer, and the model or predictions it leaves behind.

    Args:
        chooser: How samples are chosen.
        fit: The user's trainer.
        predict: The user's predictions, to be taken instead of a model.
        model: A module that ``fit`` trains in place.
        strategy: The strategy; None takes a suitable one.
        options: Options for a strategy given by name.
        start: The strategy while nothing is labelled, and by predictions while only one class is.
        support: Inputs of strategies besides the model, or a function that returns it.

    Attributes:
        model: The present torch model.
    """

    def __init__(
        self,
        chooser: Chooser,
        fit: Fit,
        predict: Predict | None,
        model: nn.Module | None,
        strategy: str | Strategy | None,
        options: Mapping[str, Any] | None,
        start: str | Strategy,
        support: Support | Callable[[], Support] | None,
    ) -> None:
        if model is not None:
            check_model(model)
        if predict is not None and (model is not None or chooser.task is not None):
            raise InputError("predict takes the place of a torch model: leave out model= and task=")
        if not callable(support):
            check_support(support)
        usual = DEFAULT_STRATEGY if predict is None else "margin"
        self.model = model
        self._chooser, self._fit, self._predict, self._support = chooser, fit, predict, support
        self._strategy = as_strategy(usual if strategy is None else strategy, options)
        self._start = as_strategy(start, None)
        self._learnt_from = ""
        if predict is not None and not callable(support):
            # Raised here rather than after the first round of labels.
            own = bool(chooser.features or (support is not None and support.features))
            check_predictable(self._strategy, features=own)

    def knows(self, learnt_from: str) -> bool:
        """Say whether the present model learnt from these labels."""
        return self._learnt_from == learnt_from

    def learn(self, ids: Sequence[SampleId], labels: Sequence[Label], learnt_from: str) -> None:
        """Fit on all labels so far.

        Raises:
            InputError: If neither a model nor predictions are available afterwards.
        """
        self._learnt_from = ""
        made = self._fit(list(ids), list(labels))
        if self._predict is None:
            if isinstance(made, nn.Module):
                self.model = made
            elif made is not None or self.model is None:
                raise InputError(
                    f"fit returned {type(made).__name__}, which is no torch module: return one, or "
                    "give model= or predict="
                )
        self._learnt_from = learnt_from

    def choose(
        self,
        k: int,
        *,
        labelled: Mapping[SampleId, Label],
        taken: Sequence[SampleId],
        seed: int,
    ) -> Selection:
        """Choose k samples.

        Args:
            k: How many.
            labelled: Labels by id.
            taken: The samples that cannot be chosen.
            seed: Seeds every draw.
        """
        strategy = self._strategy if self._can_compare(labelled) else self._start
        support = self._support() if callable(self._support) else self._support
        support = with_targets(support or NO_SUPPORT, strategy, labelled, self._chooser.task)
        if self._predict is None and self.model is not None:
            return self._chooser.by_model(
                self.model, k, strategy, labelled=taken, seed=seed, support=support
            )
        predict = self._predict
        if predict is None:
            self._check_start(strategy)
            predict = _no_predictions
        return self._chooser.by_predictions(
            predict, k, strategy, labelled=taken, seed=seed, support=support
        )

    def _can_compare(self, labelled: Mapping[SampleId, Label]) -> bool:
        """Say whether the strategy has anything to tell samples apart by.

        A torch model has an output for every class from the beginning. ``predict`` may know only
        the labelled classes, and with a single one it is equally sure of every sample.
        """
        asks = self._predict is not None and Needs.LOGITS in self._strategy.needs
        wanted = 2 if asks else 1
        kinds: set[str] = set()
        for label in labelled.values():
            kinds.add(repr(label))
            if len(kinds) == wanted:
                return True
        return False

    def _check_start(self, strategy: Strategy) -> None:
        """Refuse to begin with a strategy that needs a model when there is none yet."""
        blind = Needs.FEATURES | Needs.LABELLED if self._chooser.features else Needs.NOTHING
        if strategy.needs & ~blind:
            raise InputError(
                f"{strategy.name} needs a model, and there is none before the first labels: start "
                "with 'random', give labels= or model=, or features= for one that takes no more"
            )


def _no_predictions(ids: list[SampleId]) -> NoReturn:
    raise InputError(f"there is no model yet to look at {len(ids)} samples: start with 'random'")
