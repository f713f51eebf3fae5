"""Numbers and metrics in words: few digits, a unit, and a dash for a missing value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from steepest.experiment.statistics import LabelsSaved, Measure, Spread

DASH = "–"
MINUS = "−"
_PER_CLASS = {
    "per_class_accuracy": "test accuracy",
    "per_class_iou": "IoU",
    "per_class_average_precision": "average precision",
}


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


@dataclass(frozen=True)
class MetricWords:
    """Names of one metric.

    Attributes:
        name: By itself, as on an axis: ``test accuracy``.
        short: After another word, as in ``final accuracy``.
    """

    name: str
    short: str

    @property
    def title(self) -> str:
        """The name at the start of a sentence."""
        return capitalise(self.name)

    def measure(self, measure: Measure) -> str:
        """Return the subject of a test."""
        return "AUBC" if measure == "aubc" else f"final {self.short}"


_HEADLINES = {
    "accuracy": MetricWords("test accuracy", "accuracy"),
    "balanced_accuracy": MetricWords("balanced test accuracy", "balanced accuracy"),
    "miou": MetricWords("mean IoU", "mean IoU"),
    "mean_average_precision": MetricWords("mean average precision", "mean average precision"),
}


def words_of(metric: str) -> MetricWords:
    """Return how a metric is spoken of; one that is not known here is called by its key."""
    plain = metric.replace("_", " ")
    return _HEADLINES.get(metric) or MetricWords(f"test {plain}", plain)


def is_share(metric: str) -> bool:
    """Say whether a metric is known to be from 0 to 1."""
    return metric in _HEADLINES


def class_words_of(metric: str) -> str:
    """Return what a metric of one number per class holds, to go before ``by class``."""
    return _PER_CLASS.get(metric) or metric.removeprefix("per_class_").replace("_", " ")


def capitalise(words: str) -> str:
    """Return words with a capital first letter, and the others as they are."""
    return words[:1].upper() + words[1:]
