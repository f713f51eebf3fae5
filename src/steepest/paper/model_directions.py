"""The directions of influence of a run's models: found once, kept on disk for all artefacts."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.torch import load_file, save

from steepest.core.files import write_atomically
from steepest.core.seeds import SampleId
from steepest.influence import Vector
from steepest.paper.analyses.agreement import Targets, influences_along
from steepest.paper.analyses.directions import (
    CURVATURES,
    CurvatureName,
    Direction,
    find_directions,
)
from steepest.paper.analyses.sample_norms import LossName
from steepest.paper.finished_runs import FinishedRun
from steepest.paper.run_examples import examples_of, held_out_examples, learnt_examples
from steepest.paper.workspace import Workspace

_BETWEEN = "/"
_PURPOSE = "oracle analysis: influence of candidates with their labels"


class ModelDirections:
    """Directions by cycle.

    Solving the systems is the longest work behind the theory's artefacts. The directions of one
    loss are therefore kept on disk, in folders by model, for whoever asks next.

    Args:
        work: Holds models and data.
        run: Whose models.
        losses: The losses that v is made of.
        curvatures: The matrices.
    """

    def __init__(
        self,
        work: Workspace,
        run: FinishedRun,
        losses: Sequence[LossName],
        curvatures: Sequence[CurvatureName] = CURVATURES,
    ) -> None:
        self._work, self._run = work, run
        self._losses, self._curvatures = losses, curvatures
        self.effort = work.level.effort

    def of(self, cycle: int) -> list[Direction]:
        """Return the directions of a cycle's model, λ → ∞ among them."""
        return [one for loss in self._losses for one in self._of_loss(cycle, loss)]

    def describe(self) -> str:
        """Return the cost in a sentence."""
        effort = self.effort
        tested = "all" if effort.tested is None else f"{effort.tested}"
        return (
            f"Curvature of a fixed random part of at most {effort.learnt} labelled samples; "
            f"at most {effort.iterations} products for each loss and curvature, which serve all λ; "
            f"{tested} test samples; weight decay is part of the curvature."
        )

    def _of_loss(self, cycle: int, loss: LossName) -> list[Direction]:
        names: tuple[CurvatureName, ...] = ("none", *self._curvatures)
        folder = self._work.folder(f"directions/{self.effort.key}/{self._run.key}/cycle-{cycle}")
        there = {name: _read(folder / f"{loss}-{name}", name, loss) for name in names}
        absent = [name for name, found in there.items() if found is None]
        if absent:
            self._work.check_time()
            for name, found in self._find(cycle, loss, absent).items():
                there[name] = found
                _write(folder / f"{loss}-{name}", found)
        device = self._work.device
        return [one.to(device) for name in names for one in there[name] or ()]

    def _find(
        self, cycle: int, loss: LossName, curvatures: Sequence[CurvatureName]
    ) -> dict[CurvatureName, list[Direction]]:
        work, run = self._work, self._run
        found = find_directions(
            work.model(run, cycle),
            work.task(run),
            learnt_examples(work, run, cycle, self.effort.learnt),
            held_out_examples(work, run, self.effort.tested),
            losses=(loss,),
            curvatures=curvatures,
            dampings=self.effort.dampings,
            weight_decay=run.config.training.weight_decay,
            most_iterations=self.effort.iterations,
            progress=work.progress,
        )
        wanted = {name: [one for one in found if one.curvature == name] for name in curvatures}
        return {name: some for name, some in wanted.items() if some}


def _write(path: Path, directions: Sequence[Direction]) -> None:
    """Write vectors first and what is said of them last: that file tells that all is there."""
    tensors = {
        f"{place}{_BETWEEN}{name}": tensor.detach().cpu().contiguous()
        for place, one in enumerate(directions)
        for name, tensor in (one.vector or {}).items()
    }
    write_atomically(path.with_suffix(".safetensors"), save(tensors))
    said = [
        {
            "damping": None if math.isinf(one.damping) else one.damping,
            "solved": one.vector is not None,
            "diagnostics": one.diagnostics,
        }
        for one in directions
    ]
    write_atomically(path.with_suffix(".json"), json.dumps(said) + "\n")


def _read(path: Path, curvature: CurvatureName, loss: LossName) -> list[Direction] | None:
    """Return the stored contents; None if missing or damaged."""
    try:
        said = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        tensors = load_file(path.with_suffix(".safetensors"))
        vectors: list[Vector] = [{} for _ in said]
        for key, tensor in tensors.items():
            place, _, name = key.partition(_BETWEEN)
            vectors[int(place)][name] = tensor
        return [
            Direction(
                curvature,
                math.inf if one["damping"] is None else float(one["damping"]),
                loss,
                vectors[place] if one["solved"] else None,
                one["diagnostics"],
            )
            for place, one in enumerate(said)
        ]
    except (OSError, ValueError, KeyError, TypeError, IndexError, SafetensorError):
        return None


class ModelInfluences:
    """Influences by model, on the candidates of its own cycle and the one before.

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
