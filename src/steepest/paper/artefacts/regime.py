"""Beyond the paper: when its score follows uncertainty, and when it turns it round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from steepest.core.tables import from_table, to_table
from steepest.paper.analyses.regimes import RegimePoint, bucket_regimes, regime_points
from steepest.paper.artefact import Artefact, Findings, Need, artefact
from steepest.paper.parts import FigurePart, Panel, Part, TablePart, cell
from steepest.paper.publication import Published
from steepest.paper.workspace import Workspace

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
        """Gather what the records say."""
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
