"""The section of the page that tells how alike the strategies choose."""

from __future__ import annotations

from itertools import permutations

from steepest.core.markup import Safe, paragraph, section, table
from steepest.experiment.common_choices import CommonChoices, Shares
from steepest.experiment.report import numbers
from steepest.experiment.report.tables import share_cell

_TOLD = (
    "The share of what one strategy chose that the other chose too, mean over the seeds that both "
    "have. The first choice is made from the same candidates, and by the same model unless a "
    "strategy changes its training. The second table is about all labels that a run chose, in "
    "whatever order. What a strategy has in common with random is what chance gives; strategies "
    "that end with the same labels will hardly end with different models. The last column holds "
    "runs of a strategy with one seed against those with another, so with other first labels, "
    "weights and candidates: where it is high, the data decide what is chosen, not the model."
)


def common_section(common: CommonChoices | None) -> Safe | None:
    """Return the choices in common, None where there are none to compare."""
    if common is None:
        return None
    pairs = permutations(range(len(common.strategies)), 2)
    n = numbers.seeds(*(common.n[i][j] for i, j in pairs if common.n[i][j]))
    other_seed = common.other_seed if any(s is not None for s in common.other_seed) else None
    return section(
        "choices",
        "Do they choose alike?",
        paragraph(_TOLD),
        _matrix(f"In common of the first choice, n = {n}", common.strategies, common.first),
        _matrix(
            f"In common of all that was chosen, n = {n}",
            common.strategies,
            common.whole,
            other_seed,
        ),
    )


def _matrix(
    caption: str,
    names: tuple[str, ...],
    shares: Shares,
    other_seed: tuple[float | None, ...] | None = None,
) -> Safe:
    rows = [
        (name, *map(share_cell, row), *(() if other_seed is None else (share_cell(other_seed[i]),)))
        for i, (name, row) in enumerate(zip(names, shares, strict=True))
    ]
    last = () if other_seed is None else ("itself, other seed",)
    return table(caption, ("strategy", *names, *last), rows)
