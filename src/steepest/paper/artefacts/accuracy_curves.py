"""Accuracy against labels, per data set and method, as in three figures of the paper."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from steepest.experiment.comparison import headline_metric
from steepest.experiment.report.figures import line_styles
from steepest.paper.artefact import Artefact, Findings, artefact
from steepest.paper.finished_runs import FinishedRun
from steepest.paper.level import Level
from steepest.paper.needed_runs import Need
from steepest.paper.page_parts import FigurePart, Panel, Part, Row, curve_table
from steepest.paper.protocol import FIGURE_METHODS, share_of
from steepest.paper.published_numbers import Number, Published, row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from steepest.paper.workspace import Workspace

ALL_LABELS = "all labels"
"""Label of the line for a model trained on all data."""

_PUBLISHED = "; a thin dashed line of the same colour is what is published"
_BESIDE = ("entropy", "margin", "fisher-gradnorm")
"""Strategies that the paper does not compare with."""
_IMAGENET = tuple(name for name in FIGURE_METHODS if name != "core-gcn")
_CITYSCAPES = tuple(name for name in _IMAGENET if name != "expected-gradnorm")
_FIGURE_2_BESIDE = ("expected-gradnorm", "entropy", "margin")
"""The paper takes the first for impossible here. The expectation of a mean over pixels is the mean
of their expectations, so that it is not."""


@dataclass(frozen=True)
class CurveSet:
    """One panel: a data set and its curves.

    Attributes:
        data: The experiment.
        title: The readers' name for the data set.
        strategies: The paper's methods.
        beside: Strategies that the paper does not have, shown where they are found.
        full: The experiment with all labels; empty if there is none.
        words: The name of the metric.
    """

    data: str
    title: str
    strategies: tuple[str, ...]
    beside: tuple[str, ...] = ()
    full: str = ""
    words: str = "test accuracy"

    def needs(self) -> tuple[Need, ...]:
        """Return the runs of this panel; other starts are shown where they are found."""
        both = (*self.strategies, *self.beside)
        found = [Need(self.data, self.beside, only_if_found=True)] if self.beside else []
        found += [Need(self.data, both, init="cold", only_if_found=True)]
        full = [Need(self.full, ("random",))] if self.full else []
        return (Need(self.data, self.strategies), *full, *found)


class CurvesFigure(Artefact):
    """A figure of learning curves; a subclass names its panels."""

    sets: ClassVar[tuple[CurveSet, ...]] = ()
    note: ClassVar[str] = ""

    def needs(self) -> tuple[Need, ...]:
        """Return the runs of all panels."""
        return tuple(need for part in self.sets for need in part.needs())

    def compute(self, work: Workspace, published: Published) -> Findings:
        """Gather the curves of every data set."""
        titles = _titles(self.sets, work.level)
        sets = [part for part in self.sets if part.data in titles]
        rows = [r for part in sets for r in _rows(part, work, published)]
        notes = [self.note] if self.note and work.level.comparable else []
        if any(r["method"].endswith("(cold)") for r in rows):
            notes.append("A curve called (cold) trains from fresh weights in every cycle.")
        more = {"comparable": work.level.comparable, "titles": titles}
        return Findings(tuple(rows), tuple(notes), more=more)

    def show(self, findings: Findings) -> tuple[Part, ...]:
        """Return one figure of all panels that have a curve, and a table for each data set."""
        panels, tables = [], []
        beside = bool(findings.more.get("comparable"))
        titles = findings.more["titles"]
        for part in (replace(one, title=titles.get(one.data, "")) for one in self.sets):
            own = [r for r in findings.rows if r["data"] == part.data]
            if any(r["ours"] is not None for r in own):
                panels.append(_panel(part, own, beside=beside))
            if own:
                tables.append(curve_table(f"{part.title}: {part.words} in %", own))
        if not panels:
            return tuple(tables)
        figure = FigurePart(
            "curves",
            f"Means over seeds{_PUBLISHED if beside else ''}.",
            f"{' and '.join(titles.values())}: one panel each, labels to the right",
            tuple(panels),
        )
        return (figure, *tables)


def _titles(sets: Sequence[CurveSet], level: Level) -> dict[str, str]:
    """Return the titles of panels by experiment; in a trial, one for the data that were used."""
    if level.comparable:
        return {part.data: part.title for part in sets}
    taken: dict[str, list[CurveSet]] = {}
    for part in sets:
        taken.setdefault(level.resolve(part.data), []).append(part)
    stands = level.stand_ins([Need(part.data, ()) for part in sets])
    found = {}
    for parts in taken.values():
        data, names = parts[0].data, ", ".join(part.title for part in parts)
        found[data] = f"{stands[data]}, in place of {names}" if data in stands else names
    return found


def _rows(part: CurveSet, work: Workspace, published: Published) -> Iterable[Row]:
    done = set()
    for need in part.needs():
        runs = work.runs(need)
        for strategy in need.strategies:
            own = [run for run in runs if run.strategy == strategy]
            method = _method(part, need, strategy, own)
            if method is None or method in done:
                continue
            done.add(method)
            yield from _curve(part, method, own, work, published)
    if not part.full:
        # There is no run of ours for it, but there may be a number.
        yield from _curve(part, ALL_LABELS, (), work, published)


def _method(part: CurveSet, need: Need, strategy: str, runs: Sequence[FinishedRun]) -> str | None:
    """Return the name of a curve; None if it is empty."""
    if need.setting == part.full:
        return ALL_LABELS
    if need.only_if_found and not runs:
        return None
    return strategy if need.init is None else f"{strategy} ({need.init})"


def _curve(
    part: CurveSet,
    method: str,
    runs: Sequence[FinishedRun],
    work: Workspace,
    published: Published,
) -> Iterable[Row]:
    """Return a row for each budget, with our and the published numbers."""
    about = {"data": part.data, "method": method}
    ours: dict[int, dict[int, float]] = {}
    labels: dict[int, int] = {}
    for run in runs:
        metric = headline_metric(run.config.task.name)
        for record in run.records:
            at = 100 if method == ALL_LABELS else share_of(record.cycle)
            ours.setdefault(at, {})[run.seed] = 100 * float(record.metrics[metric])
            labels[at] = record.labelled
    published_points = {s: _published(published, at=s, **about) for s in _places(published, about)}
    for at in sorted({*ours, *published_points}):
        number, bound = published_points.get(at, (None, False))
        made = row(
            {**about, "share": at, "labels": labels.get(at)},
            ours.get(at, {}),
            number,
            comparable=work.level.comparable and not bound,
        )
        relation = "at most" if bound else "about" if number and number.read_off else ""
        yield {**made, "relation": relation, "uncertain": bool(number and number.uncertain)}


def _places(published: Published, about: Mapping[str, Any]) -> set[int]:
    return {int(at) for series in published.find(**about) for at in series.at}


def _published(published: Published, at: int, **about: str) -> tuple[Number | None, bool]:
    """Return a published accuracy, or a published upper bound if there is no other."""
    number = published.number(at, quantity="accuracy", **about)
    if number is not None:
        return number, False
    return published.number(at, quantity="bound", **about), True


def _panel(part: CurveSet, rows: Sequence[Row], *, beside: bool) -> Panel:
    """Return one data set's curves, with published ones of the same data."""

    def draw(axes: Axes) -> None:
        methods = list(dict.fromkeys(r["method"] for r in rows if r["method"] != ALL_LABELS))
        styles = line_styles([m.removesuffix(" (cold)") for m in methods])
        for method in methods:
            style = styles[method.removesuffix(" (cold)")]
            own = [r for r in rows if r["method"] == method]
            ours = [(r["share"], r["ours"]) for r in own if r["ours"] is not None]
            if ours:
                axes.plot(
                    *zip(*ours, strict=True), color=style.colour, marker=style.marker,
                    linestyle=(0, (2, 2)) if method.endswith("(cold)") else style.dash,
                    markersize=4, label=method,
                )  # fmt: skip
            published_points = [(r["share"], r["paper"]) for r in own if beside and _is_curve(r)]
            if published_points:
                axes.plot(
                    *zip(*published_points, strict=True), color=style.colour, linestyle=(0, (4, 3)),
                    linewidth=0.8, alpha=0.8, marker="." if len(published_points) == 1 else None,
                    label=None if ours else f"{method} (published)",
                )  # fmt: skip
        for r in (r for r in rows if r["method"] == ALL_LABELS and r["ours"] is not None):
            axes.axhline(r["ours"], color="#57606a", linestyle="--", label=ALL_LABELS)

    return Panel(part.title, "labels in % (as in the paper's cycles)", f"{part.words} in %", draw)


def _is_curve(r: Row) -> bool:
    """Say whether a published number is one of a curve, and not a bound."""
    return r["paper"] is not None and r["relation"] != "at most"


@artefact("figure-1")
class SmallImages(CurvesFigure):
    """Learning curves on four image sets, with the line of a model that has all labels."""

    title = "Accuracy on CIFAR-10, CIFAR-100, SVHN and Caltech-101"
    paper = "Figure 1"
    aliases = ("accuracy",)
    sets = (
        CurveSet("cifar10", "CIFAR-10", FIGURE_METHODS, _BESIDE, "cifar10-full"),
        CurveSet("cifar100", "CIFAR-100", FIGURE_METHODS, _BESIDE, "cifar100-full"),
        CurveSet("svhn", "SVHN", FIGURE_METHODS, _BESIDE, "svhn-full"),
        CurveSet("caltech101", "Caltech-101", FIGURE_METHODS, _BESIDE, "caltech101-full"),
    )
    note = (
        "The paper prints few of this figure's numbers. Those marked ≈ were read off the figure of "
        "an earlier paper of the same group with the same protocol, with a ? where that was hard; "
        "those marked ≤ are what the paper's own gap between training and test accuracy leaves "
        "room for. The published accuracies on Caltech-101 are of a net that begins with weights "
        "from ImageNet: give them by --set caltech101:model.weights=FILE."
    )


@artefact("figure-4")
class CryoEt(CurvesFigure):
    """Learning curves on volumes without noise, and with much of it."""

    title = "Accuracy on cryo-ET subtomograms, clean and at a signal-to-noise ratio of 0.05"
    paper = "Appendix A.5, Figure 4"
    aliases = ("cryoet", "a5")
    sets = (
        CurveSet("50c-clean", "50c-clean", FIGURE_METHODS, ("entropy", "margin")),
        CurveSet("50c-snr005", "50c-snr005", FIGURE_METHODS, ("entropy", "margin")),
    )
    note = (
        "The paper's volumes and classes are not published, and its figure has no numbers: these "
        "volumes are simulated anew, so compare the methods with each other."
    )


@artefact("figure-2")
class LargeScale(CurvesFigure):
    """Learning curves on a million images, and on street scenes."""

    title = "Accuracy on ImageNet and mean IoU on Cityscapes"
    paper = "Figure 2"
    aliases = ("large-scale", "imagenet", "cityscapes")
    sets = (
        CurveSet("imagenet", "ImageNet", _IMAGENET),
        CurveSet("cityscapes", "Cityscapes", _CITYSCAPES, _FIGURE_2_BESIDE, words="mean IoU"),
    )
    note = (
        "The paper prints none of this figure's numbers; the published ones here are of other "
        "papers with the same model. On ImageNet Adam begins at a learning rate of 1e-4, not at "
        "the paper's 0.1."
    )
