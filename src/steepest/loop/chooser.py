"""Choose with a torch model if there is one, otherwise by predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from steepest.core.seeds import SampleId
from steepest.errors import InputError
from steepest.loop.predictions import (
    Predict,
    Predictions,
    check_predictable,
    predicted_samples,
)
from steepest.pool import Label
from steepest.selecting.candidates import needs_with
from steepest.selecting.options import SelectionOptions, check_task
from steepest.selecting.samples import Samples
from steepest.selecting.select import select
from steepest.selecting.selection import Selection
from steepest.strategies import Needs, Strategy, Support
from steepest.strategies.feature_table import FeatureTable
from steepest.tasks.base import Task

Features = Mapping[SampleId, Tensor]
"""The feature of each sample, by id [D]."""


@dataclass(frozen=True, eq=False)
class Chooser:
    """Chooses samples from the pool by the loop's strategy.

    Attributes:
        samples: Inputs of a torch model; not needed with predictions.
        ids: All samples [N].
        features: Features of one's own; empty takes the model's.
        how: The options that stay the same in each round. A random subset has at least k samples,
            and at most ``batch_size`` are in one call for predictions.
    """

    samples: Samples | None
    ids: Sequence[SampleId]
    features: Features
    how: SelectionOptions = field(default_factory=SelectionOptions)

    def __post_init__(self) -> None:
        # A name would do for choosing, but targets are made of labels by the task itself.
        check_task(self.how.task)

    @property
    def task(self) -> Task | None:
        """The task that a torch model's logits belong to."""
        task = self.how.task
        return None if isinstance(task, str) else task

    def by_model(
        self,
        model: nn.Module,
        k: int,
        strategy: Strategy,
        *,
        labelled: Sequence[SampleId],
        seed: int,
        support: Support,
    ) -> Selection:
        """Choose k samples by a torch model."""
        how = self._with(k, labelled=labelled, seed=seed, support=self._supported(support))
        return select(model, self.samples, k, strategy, **how)

    def by_predictions(
        self,
        predict: Predict,
        k: int,
        strategy: Strategy,
        *,
        labelled: Sequence[SampleId],
        seed: int,
        support: Support,
    ) -> Selection:
        """Choose k samples by predictions, and by features if given.

        Raises:
            InputError: If the strategy takes more than that.
        """
        support = self._supported(support)
        check_predictable(strategy, features=bool(support.features))
        how = self._with(k, labelled=labelled, seed=seed, support=support, device=None)
        samples = predicted_samples(self.ids, predict, strategy)
        chosen = select(Predictions(), samples, k, strategy, **how)
        return replace(chosen, model="")  # Who predicted has no weights that could be named.

    def _with(self, k: int, **changes: Any) -> dict[str, Any]:  # noqa: ANN401
        """Return the keywords of ``select`` in this round."""
        subset = None if self.how.subset is None else max(self.how.subset, k)
        how = replace(self.how, subset=subset, **changes)
        return {f.name: getattr(how, f.name) for f in fields(how) if f.name != "shard"}

    def _supported(self, support: Support) -> Support:
        return replace(support, features=self.features) if self.features else support


def as_features(features: Any, ids: Sequence[SampleId]) -> Features:  # noqa: ANN401
    """Return features by id.

    Args:
        features: None, vectors by id, or an array [N, ...] in the order of the ids.
        ids: All samples [N].

    Raises:
        InputError: If their number differs from that of the samples.
    """
    if features is None:
        return {}
    if isinstance(features, Mapping):
        missing = next((i for i in ids if i not in features), None)
        if missing is not None:
            raise InputError(f"the given features have none for sample {missing!r}: one for each")
        return {name: torch.as_tensor(row) for name, row in features.items()}
    rows = (
        features.detach() if isinstance(features, Tensor) else torch.as_tensor(np.asarray(features))
    )
    if rows.ndim < 2 or len(rows) != len(ids):
        raise InputError(
            f"features of shape {list(rows.shape)} for {len(ids)} samples: one row for each"
        )
    return FeatureTable(ids, rows.flatten(1).float())


def with_targets(
    support: Support,
    strategy: Strategy,
    labelled: Mapping[SampleId, Label],
    task: Task | None,
) -> Support:
    """Return the support with the labels in it, if the strategy asks for them.

    Raises:
        InputError: If the labels are no classes.
    """
    if Needs.TARGETS not in needs_with(strategy, support) or support.targets or not labelled:
        return support
    if task is not None:
        rows = task.targets(list(labelled.values()))
    elif all(isinstance(label, int) for label in labelled.values()):
        rows = torch.tensor(list(labelled.values()))
    else:
        raise InputError(f"{strategy.name} learns from labels: give them as numbers of classes")
    return replace(support, targets=dict(zip(labelled, rows, strict=True)))
