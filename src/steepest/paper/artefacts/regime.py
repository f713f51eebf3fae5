"""Beyond the paper: when its score follows uncertainty, and when it turns it round."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from steepest.core.tables import from_table, to_table
from steepest.errors import InputError
from steepest.experiment.record import Record
from steepest.paper.artefact import Artefact, Findings, artefact
from steepest.paper.needed_runs import Need
from steepest.paper.page_parts import FigurePart, Panel, Part, TablePart, cell
from steepest.paper.published_numbers import Published
from steepest.paper.workspace import Workspace
from steepest.selecting.regime import INVERTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STRATEGY = "entropy-gradnorm"
_OTHERS = ("cifar100", "svhn", "caltech101", "50c-clean", "50c-snr005")
_NOTES = (
    (
        "The gradient of the entropy vanishes for uniform predictions as well as for certain "
        "ones. A weak model therefore ranks its most uncertain samples last: then the "
        "correlation is negative."
    ),
    (
        "From the records of all runs that are there; nothing was computed for it. A run ends "
        "without a choice, so that the last cycle has no point."
    ),
)


@artefact("regime")
class OverTraining(Artefact):
    """Rank correlation of entropy-gradnorm with entropy, by the model's accuracy."""

    title = "Rank correlation of entropy-gradnorm with entropy, by accuracy"
    paper = "beyond the paper"
    aliases = ("blind-spot",)

    def needs(self) -> tuple[Need, ...]:
        """Return the runs of the paper's method on CIFAR-10, and others where they are found."""
        others = (Need(name, (_STRATEGY,), only_if_found=True) for name in _OTHERS)
        return (Need("cifar10", (_STRATEGY,)), *others)

    def compute(self, work: Workspace, published: Published) -> Findings:
        """Collect the regimes of the records."""
        del published  # Nobody has measured it.
        points: dict[str, dict[str, Any]] = {}
        for run in work.runs(*self.needs()):
            for point in regime_points(run.records, run.key, _STRATEGY):
                # Experiments may share their runs.
                points.setdefault(point.where, {"data": run.setting, **to_table(point)})
        found = list(points.values())
        rows = tuple({**one, "ours": one["rank_correlation"], "n": 1} for one in found)
        buckets = [to_table(one) for one in bucket_regimes(_points(found))]
        more = {"points": found, "buckets": buckets}
        return Findings(rows, _NOTES, more=more)

    def show(self, findings: Findings) -> tuple[Part, ...]:
        """Return the buckets, and every model as a dot."""
        header = (
            "accuracy",
            "models",
            "mean",
            "lowest",
            "highest",
            "inverted",
            "mean entropy / log C",
        )
        lines = tuple(
            (
                f"{one['low']:.0%} to {one['high']:.0%}", str(one["models"]), cell(one["mean"]),
                cell(one["lowest"]), cell(one["highest"]), str(one["inverted"]),
                cell(one["entropy_ratio"]),
            )
            for one in findings.more.get("buckets", [])
        )  # fmt: skip
        points = findings.more.get("points", [])
        figure = FigurePart(
            "regime",
            "Each dot is a model at the end of a cycle.",
            "Rank correlation over accuracy; below 0 the most uncertain samples come last.",
            (Panel("", "test accuracy", "rank correlation", lambda axes: _draw(axes, points)),),
        )
        return TablePart(self.title, header, lines), figure


def _points(found: Sequence[Mapping[str, Any]]) -> list[RegimePoint]:
    return [
        from_table(RegimePoint, {name: value for name, value in one.items() if name != "data"})
        for one in found
    ]


def _draw(axes: Axes, points: Sequence[Mapping[str, Any]]) -> None:
    for data in dict.fromkeys(one["data"] for one in points):
        some = [one for one in points if one["data"] == data]
        axes.scatter(
            [one["accuracy"] for one in some], [one["rank_correlation"] for one in some], label=data
        )
    axes.axhline(0.0, color="0.5", linewidth=0.8)
    axes.set_xlim(0, 1)
    axes.set_ylim(-1, 1)


@dataclass(frozen=True)
class RegimePoint:
    """One model at one time.

    Attributes:
        accuracy: On the test set.
        entropy_ratio: Mean entropy of its predictions over log C.
        rank_correlation: Spearman's, of entropy-gradnorm with entropy, over the candidates.
        where: The model.
    """

    accuracy: float
    entropy_ratio: float
    rank_correlation: float
    where: str


@dataclass(frozen=True)
class RegimeBucket:
    """All models of about the same accuracy.

    Attributes:
        low: Accuracy from which on.
        high: Accuracy below which; the last bucket includes 1.
        models: How many.
        mean: Mean rank correlation.
        lowest: The lowest one.
        highest: The highest one.
        inverted: How many rank the most uncertain samples last.
        entropy_ratio: Mean of the models' entropy ratios.
    """

    low: float
    high: float
    models: int
    mean: float
    lowest: float
    highest: float
    inverted: int
    entropy_ratio: float


def regime_points(
    records: Iterable[Record], where: str, strategy: str = "entropy-gradnorm"
) -> list[RegimePoint]:
    """Return the regime in the records of a run.

    Args:
        records: Of one run.
        where: The name of the run.
        strategy: Whose rank correlation is meant; records of others are passed over.
    """
    found = []
    for record in records:
        regime, accuracy = record.regime, record.metrics.get("accuracy")
        if record.strategy != strategy or regime is None or regime.rank_correlation is None:
            continue
        if isinstance(accuracy, int | float):
            name = f"{where} cycle {record.cycle}"
            point = RegimePoint(
                float(accuracy), regime.entropy_ratio, regime.rank_correlation, name
            )
            found.append(point)
    return found


def bucket_regimes(points: Iterable[RegimePoint], width: float = 0.1) -> list[RegimeBucket]:
    """Gather models by accuracy; buckets without a model are left out.

    Args:
        points: Any number of models.
        width: Of a bucket, such that a whole number of them makes 1.

    Raises:
        InputError: If the width does not fit.
    """
    count = round(1 / width) if width > 0 else 0
    if count < 1 or abs(count * width - 1) > 1e-9:
        raise InputError(f"buckets of width {width} do not make 1: use 0.1 or 0.05")
    members: dict[int, list[RegimePoint]] = {}
    for point in points:
        # 0.3 / 0.1 is a little less than 3.
        place = min(count - 1, int(point.accuracy * count + 1e-9))
        members.setdefault(place, []).append(point)
    return [
        _bucket(place / count, (place + 1) / count, some) for place, some in sorted(members.items())
    ]


def _bucket(low: float, high: float, points: list[RegimePoint]) -> RegimeBucket:
    values = np.array([point.rank_correlation for point in points])
    return RegimeBucket(
        low=low,
        high=high,
        models=len(points),
        mean=float(values.mean()),
        lowest=float(values.min()),
        highest=float(values.max()),
        inverted=int((values <= INVERTED).sum()),
        entropy_ratio=float(np.mean([point.entropy_ratio for point in points])),
    )
