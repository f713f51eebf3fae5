"""The influence of candidates by a run's models, each model looked at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from steepest.core.seeds import SampleId
from steepest.paper.analyses.agreement import Targets, influences_along
from steepest.paper.examples_of import examples_of
from steepest.paper.found import FinishedRun
from steepest.paper.model_directions import ModelDirections
from steepest.paper.workspace import Workspace

_PURPOSE = "oracle analysis: influence of candidates with their labels"


class ModelInfluences:
    """Influences by model, on the candidates of the cycle before it and of its own.

    The model T(c+1) is asked about the candidates of cycle c, and as the next T(c) about those of
    cycle c + 1. Most of them are the same samples, and one pass serves both.

    Args:
        work: Holds models, data and candidates.
        run: Whose models.
        directions: Along which the influence is measured.
    """

    def __init__(self, work: Workspace, run: FinishedRun, directions: ModelDirections) -> None:
        self._work, self._run, self._directions = work, run, directions
        self._model = -1
        self._rows: dict[SampleId, int] = {}
        self._targets: list[Targets] = []

    def of(self, model: int, ids: Sequence[SampleId]) -> list[Targets]:
        """Return the influences of some candidates by one cycle's model, in their order.

        Args:
            model: The model's cycle.
            ids: Candidates of that cycle or of the one before.
        """
        if model != self._model:
            self._look(model)
        rows = np.array([self._rows[name] for name in ids], dtype=np.intp)
        return [
            one if one.values is None else replace(one, values=one.values[rows])
            for one in self._targets
        ]

    def _look(self, model: int) -> None:
        work, run = self._work, self._run
        cycles = (model - 1, model) if model else (model,)
        union = dict.fromkeys(name for c in cycles for name in work.candidates(run, c))
        pool = examples_of(work, run, list(union), _PURPOSE)
        self._targets = influences_along(
            work.model(run, model), work.task(run), pool, self._directions.of(model),
            progress=work.progress,
        )  # fmt: skip
        self._rows = {name: row for row, name in enumerate(union)}
        self._model = model
