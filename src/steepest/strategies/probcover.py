"""ProbCover: balls of one radius that cover as many samples as possible."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from steepest.errors import InputError
from steepest.modules.batches import call, logits_of
from steepest.strategies.algorithms.ball_cover import covered_by, greedy_cover, pure_radius
from steepest.strategies.algorithms.k_centre import k_centre
from steepest.strategies.algorithms.k_means import k_means
from steepest.strategies.base import Needs, Strategy, strategy
from steepest.strategies.choice import Choice, in_order
from steepest.strategies.feature_rows import all_feature_rows
from steepest.strategies.view import PoolView


@strategy("probcover")
@dataclass(frozen=True)
class ProbCover(Strategy):
    """Samples whose balls of radius δ cover the most candidates that nothing covers yet.

    Labelled samples cover their balls from the beginning. Then, greedily,

        score(x) = number of candidates y with ‖x − y‖ < δ that are not covered

    Once everything is covered, the sample that is farthest from all labelled and chosen ones
    comes next, with its distance divided by δ as the score, which is at most 1. (The published
    code takes the same sample again and again from there on.) Meant for the first, small
    budgets and for self-supervised features: give those as ``Support.features``.

    Attributes:
        radius: δ, or ``"auto"``: the largest at which the balls around a share ``purity`` of the
            samples hold one cluster alone, with as many k-means clusters as classes; where a
            sample may have several labels, as many as labels.
        purity: For ``"auto"``: that share.
        normalise: Whether features are scaled to length 1 first.
        limit: The most candidates that are not refused on a CPU: time grows with their square. A
            GPU takes as many as fit.
    """

    needs: ClassVar[Needs] = Needs.FEATURES | Needs.LABELLED

    radius: float | Literal["auto"] = "auto"
    purity: float = 0.95
    normalise: bool = True
    limit: int = 100_000

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.radius != "auto" and not self.radius > 0:
            raise InputError(f"probcover: radius must be 'auto' or more than 0, not {self.radius}")
        if not 0 < self.purity <= 1:
            raise InputError(f"probcover: purity must be above 0 and at most 1, not {self.purity}")
        if self.limit < 1:
            raise InputError(f"probcover: limit must be at least 1, not {self.limit}")

    def choose(self, pool: PoolView, k: int) -> Choice:
        """Return k samples, those that cover most first.

        Raises:
            InputError: If there are too many candidates for a CPU.
        """
        if len(pool) > self.limit and pool.device.type == "cpu":
            raise InputError(
                f"probcover compares all pairs of {len(pool)} candidates, above limit = "
                f"{self.limit} for a CPU: set a subset, use a GPU, or use 'typiclust'"
            )
        rows, known = all_feature_rows(pool, self.name)
        rows = F.normalize(rows, dim=1) if self.normalise else rows
        # Distances do not change, but lose fewer digits near the origin.
        rows -= rows.mean(0)
        radius = self._radius(pool, rows)
        points, labelled = rows[: len(pool)], rows[len(pool) :]
        covered = covered_by(points, labelled, radius) if known else None
        positions, gains = greedy_cover(points, radius, k, covered=covered, progress=pool.progress)
        scores = [float(gain) for gain in gains]
        if len(positions) < k:
            more, distances = _farthest(points, labelled, positions, k - len(positions))
            positions += more
            scores += [min(1.0, distance / radius) for distance in distances]
        return in_order(positions, scores)

    def _radius(self, pool: PoolView, rows: Tensor) -> float:
        if self.radius != "auto":
            return self.radius
        labels = k_means(rows, _classes(pool), pool.seed, progress=pool.progress).labels
        return pure_radius(rows, labels, self.purity, pool.seed)


def _classes(pool: PoolView) -> int:
    """Return how many classes the model tells apart; it did not run if features were given."""
    # Of several labels each is there or not: two outcomes, which are not the classes.
    told: int | None = getattr(pool.task, "classes", None)
    if told is not None:
        return max(2, told)
    if pool.classes:
        return pool.classes
    with torch.no_grad():
        logits = logits_of(call(pool.model, pool.load(range(min(2, len(pool))))))
    return pool.task.distributions(logits).shape[1]


def _farthest(
    points: Tensor, labelled: Tensor, taken: list[int], count: int
) -> tuple[list[int], list[float]]:
    """Return candidates that are farthest from what is labelled or taken, one by one."""
    free = torch.ones(len(points), dtype=torch.bool, device=points.device)
    free[taken] = False
    left = free.nonzero()[:, 0]
    found = k_centre(points[left], count, centres=torch.cat([labelled, points[taken]]))
    return left[found.positions].tolist(), found.scores.tolist()
