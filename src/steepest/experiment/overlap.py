"""Overlap of strategies: the labels that two runs have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from steepest.core.seeds import SampleId
from steepest.experiment.comparison import Comparison, Run

Shares = tuple[tuple[float | None, ...], ...]
_Chosen = frozenset[SampleId]


@dataclass(frozen=True)
class CommonChoices:
    """Shares of what two strategies chose that both chose, as means over the seeds both have.

    Where one chose fewer samples than the other, it is a share of the fewer. The diagonals are
    None, as are pairs without a seed in common.

    Attributes:
        strategies: Names of rows and columns [K].
        first: Of the first choice, made from the same candidates [K, K].
        whole: Of all that a run chose; labels that it began with do not count [K, K].
        other_seed: Of all that a run chose, in common with the strategy's runs of other seeds, as
            a mean over all pairs of seeds [K]; None with one seed.
        n: How many seeds row and column have in common [K, K].
    """

    strategies: tuple[str, ...]
    first: Shares
    whole: Shares
    other_seed: tuple[float | None, ...]
    n: tuple[tuple[int, ...], ...]


def common_choices(comparison: Comparison) -> CommonChoices | None:
    """Compare the choices of a comparison's complete runs.

    Returns:
        None where no two strategies have a seed in common in which both chose something.
    """
    names = comparison.compared
    first = _choices(comparison, names, lambda run: run.entries[0]["selected"])
    whole = _choices(
        comparison, names, lambda run: (id_ for entry in run.entries for id_ in entry["selected"])
    )
    n = tuple(tuple(len(one.keys() & other.keys()) for other in whole) for one in whole)
    if not any(n[i][j] for i, j in combinations(range(len(names)), 2)):
        return None
    return CommonChoices(
        strategies=names,
        first=_pairwise(first),
        whole=_pairwise(whole),
        other_seed=tuple(_between_seeds(chosen) for chosen in whole),
        n=n,
    )


def _choices(
    comparison: Comparison,
    names: Iterable[str],
    chosen_by: Callable[[Run], Iterable[SampleId]],
) -> list[dict[int, _Chosen]]:
    """Return each strategy's choices by seed; runs without any are left out."""
    found = (
        {seed: frozenset(chosen_by(comparison.runs[name, seed])) for seed in seeds}
        for name in names
        for seeds in (comparison.complete_seeds(name),)
    )
    return [{seed: chosen for seed, chosen in by_seed.items() if chosen} for by_seed in found]


def _pairwise(chosen: list[dict[int, _Chosen]]) -> Shares:
    count = len(chosen)
    matrix: list[list[float | None]] = [[None] * count for _ in range(count)]
    for i, j in combinations(range(count), 2):
        seeds = chosen[i].keys() & chosen[j].keys()
        matrix[i][j] = matrix[j][i] = _mean(_share(chosen[i][s], chosen[j][s]) for s in seeds)
    return tuple(map(tuple, matrix))


def _between_seeds(chosen: dict[int, _Chosen]) -> float | None:
    return _mean(_share(one, other) for one, other in combinations(chosen.values(), 2))


def _share(one: _Chosen, other: _Chosen) -> float:
    return len(one & other) / min(len(one), len(other))


def _mean(values: Iterable[float]) -> float | None:
    known = list(values)
    return fmean(known) if known else None
