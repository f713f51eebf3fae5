"""The directions of influence of a run's models, each found once for two neighbouring cycles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from steepest.reproduce.analyses.directions import (
    CURVATURES,
    DAMPINGS,
    CurvatureName,
    Direction,
    find_directions,
)
from steepest.reproduce.analyses.sample_norms import LossName
from steepest.reproduce.examples_of import held_out_examples, learnt_examples
from steepest.reproduce.found import FinishedRun
from steepest.reproduce.workspace import Workspace


@dataclass(frozen=True)
class Effort:
    """How much is spent on one model.

    Attributes:
        dampings: λ, beside λ → ∞.
        iterations: Products for each loss and curvature at most.
        learnt: Labelled samples that the curvature is of, at most: a fixed random part.
        tested: Test samples at most; None takes all.
    """

    dampings: tuple[float, ...] = DAMPINGS
    iterations: int = 50
    learnt: int = 5000
    tested: int | None = None


SMALL = Effort(dampings=(0.01, 1.0), iterations=6, learnt=40, tested=40)
"""For a trial of the whole path."""


class ModelDirections:
    """Directions by cycle; those of two models are kept at a time.

    Args:
        work: Holds models and data.
        run: Whose models.
        losses: Which losses v is made of.
        curvatures: Which matrices.
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
        self._kept: dict[int, list[Direction]] = {}
        self.effort = SMALL if work.smoke else Effort()

    def of(self, cycle: int) -> list[Direction]:
        """Return the directions of a cycle's model."""
        if cycle not in self._kept:
            for old in [one for one in self._kept if abs(one - cycle) != 1]:
                del self._kept[old]
            self._kept[cycle] = self._find(cycle)
        return self._kept[cycle]

    def describe(self) -> str:
        """Return in a sentence what was spent."""
        effort = self.effort
        tested = "all" if effort.tested is None else f"{effort.tested}"
        return (
            f"Curvature of a fixed random part of at most {effort.learnt} labelled samples; "
            f"at most {effort.iterations} products for each loss and curvature, which serve all λ; "
            f"{tested} test samples; weight decay is part of the curvature."
        )

    def _find(self, cycle: int) -> list[Direction]:
        work, run = self._work, self._run
        return find_directions(
            work.model(run, cycle),
            work.task(run),
            learnt_examples(work, run, cycle, self.effort.learnt),
            held_out_examples(work, run, self.effort.tested),
            losses=self._losses,
            curvatures=self._curvatures,
            dampings=self.effort.dampings,
            weight_decay=run.config.training.weight_decay,
            most_iterations=self.effort.iterations,
            progress=work.progress,
        )
