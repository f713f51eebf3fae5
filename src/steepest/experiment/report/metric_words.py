"""Names of metrics on axes, in tables and in sentences."""

from __future__ import annotations

from dataclasses import dataclass

from steepest.experiment.statistics import Measure


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
        """Return what a test is about."""
        return "AUBC" if measure == "aubc" else f"final {self.short}"


_HEADLINES = {
    "accuracy": MetricWords("test accuracy", "accuracy"),
    "balanced_accuracy": MetricWords("balanced test accuracy", "balanced accuracy"),
    "miou": MetricWords("mean IoU", "mean IoU"),
    "mean_average_precision": MetricWords("mean average precision", "mean average precision"),
}

_PER_CLASS = {
    "per_class_accuracy": "test accuracy",
    "per_class_iou": "IoU",
    "per_class_average_precision": "average precision",
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
