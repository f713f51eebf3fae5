"""Chooses the next samples to label once a model is trained; callbacks of trainers build on it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from steepest.core.parsing import whole_number
from steepest.core.seeds import SampleId
from steepest.core.wording import counted
from steepest.errors import InputError, SettingWarning, SteepestError
from steepest.labelling.project import open_pool
from steepest.loop import ActiveLoop
from steepest.modules import batches
from steepest.modules.preserve import evaluating
from steepest.pool import Label, State
from steepest.selecting.options import DEFAULT_STRATEGY
from steepest.selecting.samples import PoolLike, as_samples
from steepest.selecting.selection import Selection
from steepest.strategies import Strategy

_OWN = ("fit", "predict", "label", "evaluate", "model", "start")


class NextSamples:
    """Chooses samples with a trained model, and notes them in a labelling project.

    Args:
        pool: Anything that ``steepest.select`` takes, with samples in the form that the model
            takes.
        k: How many samples should wait for a label; those that already do are counted.
        folder: The labelling project, created if it does not exist.
        strategy: A name or a strategy.
        options: Further keywords of ``steepest.ActiveLoop``, such as ``ids``, ``labels``,
            ``subset``, ``seed``, ``task``, ``batch_size`` and ``progress``.

    Attributes:
        selection: The samples chosen last; None if none were, or enough were waiting.

    Raises:
        InputError: If an option cannot be used.
        RunFolderError: If the folder belongs to other samples.
    """

    def __init__(
        self,
        pool: PoolLike,
        k: int,
        folder: Path | str,
        *,
        strategy: str | Strategy = DEFAULT_STRATEGY,
        **options: Any,  # noqa: ANN401
    ) -> None:
        refused = next((name for name in _OWN if name in options), None)
        if refused is not None:
            raise InputError(f"{refused}= is not an option here: the trainer provides it")
        if (whole_number(k) or 0) < 1:
            raise InputError(f"k must be a whole number of at least 1, not {k!r}")
        self.folder = Path(folder)
        self.selection: Selection | None = None
        self._pool, self._k, self._strategy, self._options = pool, k, strategy, options
        self._open(None, {}).close()  # Raises errors now rather than after training.

    def labelled(self) -> tuple[list[SampleId], list[Label]]:
        """Return the ids and labels of all labelled samples, whoever labelled them."""
        with open_pool(self.folder) as pool:
            return pool.labelled()

    def tell(self, labels: Mapping[SampleId, Label | None], *, who: str = "tell") -> None:
        """Save labels by id; None skips a sample for good.

        Raises:
            InputError: If a sample is not in the pool.
            PoolError: If a label contradicts one that is on record; then none is saved.
        """
        with self._open(None, {}) as loop:
            loop.tell(labels, who=who)

    def choose(
        self, model: nn.Module | None = None, metrics: Mapping[str, Any] | None = None
    ) -> Selection | None:
        """Choose new samples, until k wait for a label.

        Args:
            model: The trained model; None chooses at random, before there are labels.
            metrics: Recorded with the round, if numbers.

        Returns:
            The new samples; None if enough are waiting, or none are left.

        Raises:
            InputError: If there are labels and no model.
        """
        numbers = {name: v for name, v in (metrics or {}).items() if _is_finite(v)}
        with self._open(model, numbers) as loop:
            if loop.pool.counts()[State.LABELLED]:
                if model is None:
                    raise InputError(f"{self.folder} has labels: give the model trained on them")
                loop.learn()
            counts = loop.pool.counts()
            wanted = min(self._k - counts[State.QUERIED], counts[State.UNLABELLED])
            self.selection = loop.ask(wanted) if wanted > 0 else None
        return self.selection

    def after_training(self, model: nn.Module, metrics: Mapping[str, Any]) -> None:
        """Choose new samples; a failure is a warning, since the model is not saved yet."""
        try:
            self.choose(model, metrics)
        except SteepestError as error:
            warnings.warn(
                f"the model is trained, but no samples were chosen: {error}; call choose(model) of "
                "the callback again",
                SettingWarning,
                stacklevel=3,
            )

    def rehearse(self, model: nn.Module) -> None:
        """Run the model on one sample of the pool.

        A pool that does not fit the model shows before the training run, and not at its end.
        """
        samples = as_samples(self._pool, self._options.get("ids"))
        first = next(model.parameters(), None)
        inputs = next(samples.batches([0], 1))
        if first is not None:
            inputs = batches.move(inputs, first.device, first.dtype)
        with evaluating(model), torch.no_grad():
            batches.logits_of(batches.call(model, inputs))

    def counts(self) -> dict[str, int]:
        """Return the numbers of labelled and of waiting samples, named for a logger."""
        with open_pool(self.folder) as pool:
            found = pool.counts()
        states = (State.LABELLED, State.QUERIED)
        return {f"steepest/{state}": found[state] for state in states}

    def summary(self) -> str:
        """Return one sentence on the samples chosen last."""
        waiting = self.counts()[f"steepest/{State.QUERIED}"]
        wait = counted(waiting, "sample waits", "samples wait")
        if self.selection is None:
            return f"No new samples were chosen: {wait} for a label in {self.folder}"
        chosen = f"{counted(len(self.selection), 'sample')} chosen by {self.selection.strategy}"
        return f"{chosen}: {wait} for a label in {self.folder}"

    def _open(self, model: nn.Module | None, metrics: Mapping[str, Any]) -> ActiveLoop:
        def fit(_ids: Sequence[SampleId], _labels: Sequence[Label]) -> nn.Module | None:
            return model

        return ActiveLoop(
            self._pool,
            fit=fit,
            model=model,
            evaluate=lambda: metrics,
            strategy=self._strategy,
            start="random" if model is None else self._strategy,
            folder=self.folder,
            **self._options,
        )


def _is_finite(value: object) -> bool:
    plain = value.tolist() if hasattr(value, "tolist") else value
    return isinstance(plain, Real) and bool(np.isfinite(float(plain)))
