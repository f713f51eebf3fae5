"""The candidates of a pool, and its labelled samples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from steepest.core.seeds import SampleId, keyed_uniform, random_subset
from steepest.errors import InputError
from steepest.pool.values import plain_id
from steepest.selecting.options import SelectionOptions
from steepest.selecting.samples import Samples, as_samples
from steepest.strategies import Needs, Strategy, Support
from steepest.strategies.support import NO_SUPPORT


class Candidates(NamedTuple):
    """The candidate samples of a pool.

    Attributes:
        taken: Ids of labelled samples.
        free: Positions of all others, in the pool's order.
        positions: Positions of those to score: a random part of the free ones, or all.
    """

    taken: set[SampleId]
    free: Sequence[int]
    positions: Sequence[int]


def find_candidates(samples: Samples, how: SelectionOptions) -> Candidates:
    """Find the samples that can be chosen.

    Raises:
        InputError: If no candidates are left.
    """
    taken = _taken(samples, how.labelled)
    everyone = range(len(samples))  # Stays a range: a list of a million takes memory.
    free = [p for p in everyone if samples.ids[p] not in taken] if taken else everyone
    if not free:
        raise InputError("every sample of the pool is labelled already")
    return Candidates(taken, free, _subset(samples, free, how.subset, how.seed))


def _taken(samples: Samples, labelled: Iterable[SampleId] | None) -> set[SampleId]:
    taken = set(labelled or ())
    # A range tests membership directly, without a set of a million ids.
    known = samples.ids if isinstance(samples.ids, range) else set(samples.ids)
    if unknown := {i for i in taken if i not in known}:
        raise InputError(
            f"the labelled id {next(iter(unknown))!r} is not in the pool, where ids are such as "
            f"{samples.ids[0]!r}"
        )
    return taken


def _subset(samples: Samples, free: Sequence[int], subset: int | None, seed: int) -> Sequence[int]:
    if subset is None:
        return free
    drawn = random_subset([samples.ids[p] for p in free], subset, seed)
    return [free[d] for d in drawn]


def shuffled(samples: Samples, positions: Sequence[int], seed: int) -> list[int]:
    """Return positions in an order that ids and the seed decide, whatever the pool's is."""
    draws = keyed_uniform(seed, "order of choosing", [samples.ids[p] for p in positions])[:, 0]
    return [positions[i] for i in np.argsort(draws, kind="stable")]


def find_labelled(
    samples: Samples, taken: set[SampleId], strategy: Strategy, how: SelectionOptions
) -> Samples | None:
    """Return the labelled samples: of a separate pool, or of this one."""
    support = how.support or NO_SUPPORT
    if support.labelled is not None:
        return as_samples(support.labelled)
    known = taken
    if support.targets and Needs.TARGETS in needs_with(strategy, support):
        # Samples that are taken but have no label, such as skipped ones, teach nothing.
        known = {plain_id(i) for i in support.targets}
    rows = [p for p in range(len(samples)) if samples.ids[p] in known] if known else []
    return samples.part(shuffled(samples, rows, how.seed)) if rows else None


def needs_with(strategy: Strategy, support: Support) -> Needs:
    """Return the needs of a strategy, given the modules trained along with the model."""
    return strategy.needs_alone if support.extra is None else strategy.needs


def check_no_id_twice(labelled: Samples, free: Sequence[SampleId]) -> None:
    """Refuse features by id where an id means two samples."""
    if twice := set(labelled.ids) & set(free):
        raise InputError(
            f"sample {next(iter(twice))!r} is a candidate and one of Support.labelled, so that its "
            "features are not clear: give the labelled pool ids of its own"
        )
