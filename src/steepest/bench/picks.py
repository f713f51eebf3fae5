"""Comparison of another implementation's picks with ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from steepest.bench.feature_pool import make_head, make_pool
from steepest.bench.public_style import gradient_embeddings

_TILE = 1024
_WITH_DISTANCES = ("badge", "core-set", "probcover", "typiclust")


@dataclass(frozen=True)
class Picks:
    """Another way's picks beside ours.

    Distances are from every candidate to the nearest sample that is labelled or chosen, in the
    space in which the strategy measures them; for badge those are gradients, of chosen ones alone.

    Attributes:
        distinct: How many different samples it chose.
        same: How many of them are among ours.
        mean: Mean distance; None for strategies that give each sample a score of its own.
        largest: Largest distance, the cover radius.
        our_mean: Mean distance with our picks.
        our_largest: Largest distance with our picks.
    """

    distinct: int
    same: int
    mean: float | None = None
    largest: float | None = None
    our_mean: float | None = None
    our_largest: float | None = None

    def __str__(self) -> str:
        text = f"{self.same} of {self.distinct} picks are ours"
        if self.mean is None or self.same == self.distinct:
            return text
        return (
            f"{text}, distances {self.mean:.4g} on average and {self.largest:.4g} at most "
            f"(ours {self.our_mean:.4g} and {self.our_largest:.4g})"
        )


def compare_picks(job: Mapping[str, Any], ours: Sequence[int], theirs: Sequence[int]) -> Picks:
    """Compare picks of one trial.

    Args:
        job: What both trials were given.
        ours: Positions of our picks [k].
        theirs: Positions of the others' picks [k].
    """
    distinct, same = len(set(theirs)), len(set(theirs) & set(ours))
    if job["strategy"] not in _WITH_DISTANCES:
        return Picks(distinct, same)
    rows, known = _space(job)
    found = [_distances(rows, [*known, *picks], job["labelled"]) for picks in (theirs, ours)]
    return Picks(distinct, same, *(float(f) for d in found for f in (d.mean(), d.max())))


def _space(job: Mapping[str, Any]) -> tuple[Tensor, range]:
    """Return the rows between which a strategy measures distances, and those covered before."""
    pool = make_pool(job["pool"] + job["labelled"], job["features"], job["seed"])
    if job["strategy"] == "badge":
        model = make_head(job["features"], job["classes"], job["seed"])
        return gradient_embeddings(model, pool), range(0)
    rows = pool.flatten(1)
    if job["strategy"] == "probcover":
        rows = nn.functional.normalize(rows)
    return rows, range(job["labelled"])


def _distances(rows: Tensor, centres: Sequence[int], labelled: int) -> Tensor:
    near = rows[list(centres)]
    tiles = torch.split(rows[labelled:], _TILE)
    return torch.cat([torch.cdist(tile, near).amin(1) for tile in tiles])
