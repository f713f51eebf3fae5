"""Numbers as a reader wants them: few digits, a unit, and a dash for what is not there."""

from __future__ import annotations

from collections.abc import Iterable

from steepest.experiment.statistics import LabelsSaved, Spread

DASH = "–"
MINUS = "−"


def share(value: float | None) -> str:
    """Return a fraction with three decimals."""
    return DASH if value is None else f"{value:.3f}"


def mean_share(value: float | None) -> str:
    """Return a share of few things with two decimals."""
    return DASH if value is None else f"{value:.2f}"


def signed(value: float | None, decimals: int = 3) -> str:
    """Return a difference with its sign."""
    return DASH if value is None else f"{value:+.{decimals}f}".replace("-", MINUS)


def spread(value: Spread | None) -> str:
    """Return mean ± standard deviation; without the latter for one seed."""
    if value is None:
        return DASH
    mean = f"{value.mean:.3f}"
    return mean if value.sd is None else f"{mean} ± {value.sd:.3f}"


def p_value(value: float | None) -> str:
    """Return a p-value with three decimals, or that it is below 0.001.

    One that is a little above 5 % does not round down to it: "0.050" reads as significant.
    """
    if value is None:
        return DASH
    if value < 0.001:
        return "< 0.001"
    return "> 0.050" if 0.05 < value < 0.0505 else f"{value:.3f}"


def saved(value: LabelsSaved | None) -> str:
    """Return the mean of the labels saved, and how many seeds reached the target.

    Where some did not, a mean of the others would be of the best seeds alone: there is a dash.
    """
    if value is None:
        return DASH
    n = len(value.values)
    if value.mean is None or value.reached < n:
        return f"{DASH} ({value.reached}/{n})"
    # Rounded first: a saving of less than half a label is 0, not −0.
    return f"{round(value.mean)} ({value.reached}/{n})".replace("-", MINUS)


def seconds(value: Spread | None) -> str:
    """Return a mean time with about three digits."""
    if value is None:
        return DASH
    return f"{value.mean:.0f}" if value.mean >= 100 else f"{value.mean:.2f}"


def size(count_bytes: int | None) -> str:
    """Return a size in the largest unit that leaves at least one."""
    if count_bytes is None:
        return DASH
    amount = float(count_bytes)
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


def seeds(*counts: int) -> str:
    """Return how many seeds, in words: from the fewest to the most where that differs."""
    return "1 seed" if set(counts) == {1} else f"{span(counts)} seeds"


def span(counts: Iterable[int]) -> str:
    """Return a number, or the least and the greatest of several that differ."""
    known = set(counts)
    return f"{min(known)}" if len(known) == 1 else f"{min(known)} to {max(known)}"
