"""The paper's Table 2: agreement of the criterion with the exact influence.

The paper does not say by which model the influence was computed, whether its sign counted, which
loss and damping it had, nor how an indefinite Hessian was inverted. All readings are computed and
shown; which one comes nearest to the published numbers is said afterwards.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from torch import nn

from steepest.core.progress import Progress, SilentProgress
from steepest.core.seeds import SampleId, derive
from steepest.gradnorm.norms import SampleNorm
from steepest.influence import Source, influences_on_test
from steepest.paper.analyses.directions import CurvatureName, Direction
from steepest.paper.analyses.ranking import chance_overlap, highest
from steepest.paper.analyses.sample_norms import LossName, NormTable
from steepest.strategies.algorithms.ranking import Values, rank_correlation
from steepest.tasks.base import Losses

WhichModel = Literal["T(c)", "T(c+1)"]
"""The model that chose, or the one trained on what it chose."""

Sign = Literal["signed", "absolute"]
"""Position of harmful samples in the ranking: last, or first like helpful ones."""

SIGNS: tuple[Sign, ...] = ("signed", "absolute")


@dataclass(frozen=True)
class Reading:
    """One way to understand the comparison.

    Attributes:
        model: Whose influence.
        curvature: The inverted matrix.
        damping: λ; None for λ → ∞, where the influence is a product of gradients.
        target_loss: The loss of test samples and of x in the influence.
        sign: Whether its sign counts.
        criterion_loss: The loss in the criterion ‖∇L(T(c)(x))‖.
        norm: The norm.
    """

    model: WhichModel
    curvature: CurvatureName
    damping: float | None
    target_loss: LossName
    sign: Sign
    criterion_loss: LossName
    norm: SampleNorm

    def describe(self) -> str:
        """Return it in a few words."""
        strength = "λ → ∞" if self.damping is None else f"{self.curvature}, λ = {self.damping:g}"
        return (
            f"influence at {self.model}, {self.target_loss}, {self.sign}, {strength}; "
            f"criterion {self.criterion_loss}, {self.norm}"
        )


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Agreement of criterion and influence under one reading in one cycle.

    Attributes:
        cycle: Counted from 0: the cycle of T(c).
        reading: What was compared.
        k: Samples that each puts first, K.
        candidates: Samples that were ranked, R.
        overlap: Samples that both put first; None if the system has no solution.
        chance: The overlap of unrelated rankings.
        chance_sd: The standard deviation of that.
        rank_correlation: Spearman's, over all candidates.
        sound: Whether the matrix was positive definite and the system solved to tolerance.
        solver: The solver's report.
    """

    cycle: int
    reading: Reading
    k: int
    candidates: int
    overlap: int | None
    chance: float
    chance_sd: float
    rank_correlation: float | None
    sound: bool
    solver: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Targets:
    """The influence of every candidate along one direction.

    Attributes:
        direction: Along which s.
        values: s · ∇L(x) [R]; None if the system has no solution.
    """

    direction: Direction
    values: Values | None


def influences_along(
    model: nn.Module,
    task: Losses,
    candidates: Source,
    directions: Iterable[Direction],
    *,
    progress: Progress | None = None,
) -> list[Targets]:
    """Return the influence of every candidate along every direction, one pass for each loss.

    Args:
        model: The one that the directions belong to; left unchanged.
        task: Whose losses are meant.
        candidates: R samples; with targets for directions of ``"true-label"``.
        directions: The result of ``find_directions``.
        progress: Updated after each pass.
    """
    ordered = list(directions)
    rows: dict[int, Values] = {}
    for loss in dict.fromkeys(one.loss for one in ordered):
        there = [
            (place, one.vector)
            for place, one in enumerate(ordered)
            if one.loss == loss and one.vector is not None
        ]
        if there:
            values = influences_on_test(
                model, task, candidates, [vector for _, vector in there], loss=loss,
                progress=progress or SilentProgress(),
            ).numpy()  # fmt: skip
            rows.update((place, row) for (place, _), row in zip(there, values, strict=True))
    return [Targets(one, rows.get(place)) for place, one in enumerate(ordered)]


def agreement_grid(
    targets: Mapping[WhichModel, Sequence[Targets]],
    criterion: NormTable,
    ids: Sequence[SampleId],
    *,
    cycle: int,
    k: int,
    seed: int,
) -> list[Agreement]:
    """Compare the criterion with the influence under every reading.

    Args:
        targets: Influences by the model that they were computed with.
        criterion: ‖∇L(T(c)(x))‖ of all candidates [R], by loss and norm.
        ids: The candidates' ids [R].
        cycle: Counted from 0.
        k: Samples that each puts first.
        seed: Breaks ties, for a purpose of its own.
    """
    ties = derive(seed, "table 2 ties", cycle)
    level = chance_overlap(k, len(ids))
    firsts = {key: highest(values, ids, k, ties) for key, values in criterion.items()}
    cells: list[Agreement] = []
    for which, along in targets.items():
        for one, sign in itertools.product(along, SIGNS):
            direction, ranked = one.direction, _signed(one.values, sign)
            damping = None if math.isinf(direction.damping) else direction.damping
            top = None if ranked is None else highest(ranked, ids, k, ties)
            cells += [
                Agreement(
                    cycle=cycle,
                    reading=Reading(
                        which, direction.curvature, damping, direction.loss, sign, *key
                    ),
                    k=k,
                    candidates=len(ids),
                    overlap=None if top is None else len(top & firsts[key]),
                    chance=level.mean,
                    chance_sd=level.sd,
                    rank_correlation=None if ranked is None else rank_correlation(ranked, values),
                    sound=direction.sound,
                    solver=direction.diagnostics,
                )
                for key, values in criterion.items()
            ]
    return cells


def _signed(values: Values | None, sign: Sign) -> Values | None:
    return values if values is None or sign == "signed" else np.abs(values)


@dataclass(frozen=True)
class Distance:
    """Distance of a reading from the published numbers.

    Attributes:
        reading: Which.
        share: Mean of overlap / K over the cycles that were compared.
        published: Mean of the published numbers / K over the same cycles.
        distance: Mean of their absolute difference.
        cycles: How many cycles were compared.
        sound: Whether every system behind it was positive definite and solved.
        nearest: Whether no other reading is nearer; said afterwards, not chosen beforehand.
    """

    reading: Reading
    share: float
    published: float
    distance: float
    cycles: int
    sound: bool
    nearest: bool


def order_by_distance(cells: Iterable[Agreement], published: Mapping[int, float]) -> list[Distance]:
    """Return all readings, the nearest to the published numbers first.

    Args:
        cells: Agreements of any cycles and seeds.
        published: Shares of K by cycle, between 0 and 1; other cycles are not compared.
    """
    pairs: dict[Reading, list[tuple[float, float, bool]]] = {}
    for one in cells:
        if one.overlap is not None and one.cycle in published:
            pair = (one.overlap / one.k, published[one.cycle], one.sound)
            pairs.setdefault(one.reading, []).append(pair)
    found = [
        (reading, _mean([abs(a - b) for a, b, _ in some]), some) for reading, some in pairs.items()
    ]
    found.sort(key=lambda one: one[1])
    least = found[0][1] if found else 0.0
    return [
        Distance(
            reading=reading,
            share=_mean([a for a, _, _ in some]),
            published=_mean([b for _, b, _ in some]),
            distance=distance,
            cycles=len(some),
            sound=all(sound for _, _, sound in some),
            nearest=distance == least,
        )
        for reading, distance, some in found
    ]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
