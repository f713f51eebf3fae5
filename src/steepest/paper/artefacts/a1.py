"""Appendix A.1: the gradient norm of the mean loss falls, and how far that goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from steepest.core.tables import to_table
from steepest.paper.analyses import study_descent
from steepest.paper.artefact import Artefact, Findings, artefact
from steepest.paper.needed_runs import Need
from steepest.paper.page_parts import FigurePart, Panel, Part, TablePart, cell
from steepest.paper.published_numbers import Published
from steepest.paper.workspace import Workspace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NOTES = (
    (
        "A.1 is about one step of gradient descent on the whole objective, μ-strongly convex "
        "and L-smooth; it is tried here on logistic regression with weight decay, where both "
        "are known."
    ),
    (
        "The stated step 2μ/L² is enough, and much smaller than needed: the norm cannot grow "
        "for any step up to 2/L, which is larger by the condition number L/μ."
    ),
    (
        "The statement is about the gradient of the mean loss. Gradients of single samples grow "
        "in the same steps, and it is those that Eq. (5) is about."
    ),
    ("In the paper's proof ‖H∇f‖² is bounded by ‖L²∇f‖²; what is meant, and true, is L²‖∇f‖²."),
    "A net is neither strongly convex nor trained by one such step.",
)
_TITLES = {
    "plane": "labels by a plane, with noise",
    "balanced": "every point with both labels: minimum at 0, curvature L",
}


@artefact("a1")
class AverageNorm(Artefact):
    """Effect of one step of gradient descent on the gradient norm of the mean loss."""

    title = "Norm of the mean loss's gradient after one step, by step size"
    paper = "Appendix A.1"
    aliases = ("average-norm",)

    def needs(self) -> tuple[Need, ...]:
        """Return nothing: it is a separate study."""
        return ()

    def compute(self, work: Workspace, published: Published) -> Findings:
        """Take steps of every size from many starts."""
        del published  # A proof has no numbers.
        starts, points = (200, 200) if work.level.comparable else (20, 40)

        def make() -> dict[str, Any]:
            return to_table(
                study_descent(starts=starts, points=points, seed=work.seed, progress=work.progress)
            )

        study = work.remember(f"a1/{points}-points-{starts}-starts", make)
        rows = tuple({**row, "ours": row["worst"], "n": row["starts"]} for row in study["rows"])
        return Findings(rows=rows, notes=(*_outcome(study), *_NOTES), more=study)

    def show(self, findings: Findings) -> tuple[Part, ...]:
        """Return a table of all steps and a panel for each problem."""
        study = findings.more
        header = (
            "problem",
            "η / (2/L)",
            "η / (2μ/L²)",
            "worst ratio",
            "median ratio",
            "grown",
            "samples grown",
        )
        lines = tuple(
            (
                row["kind"], cell(row["of_largest"], 3), cell(row["of_stated"], 2),
                cell(row["worst"], 4), cell(row["median"], 4), f"{row['grown']} of {row['starts']}",
                f"{row['samples_grown']:.1%}",
            )
            for row in study["rows"]
        )  # fmt: skip
        note = (
            "Ratio: ‖∇f(w')‖ / ‖∇f(w)‖. Grown: starts from which it is above 1. Samples grown: "
            "mean share of samples whose own gradient grew."
        )
        panels = tuple(_panel(kind, study) for kind in study["smoothness"])
        figure = FigurePart(
            "average-norm",
            "Largest ratio of gradient norms after and before one step, over all starts.",
            "Ratio over step size on logarithmic axes; lines mark a ratio of 1 and both steps.",
            panels,
        )
        return TablePart(self.title, header, lines, note), figure


def _outcome(study: Mapping[str, Any]) -> tuple[str, ...]:
    said = {True: "never grew", False: "grew"}
    grew = "did" if study["violated_beyond"] else "did not"
    return (
        (
            f"With steps of at most 2μ/L² the norm {said[study['holds']]}; with steps of at most "
            f"2/L it {said[study['holds_up_to_largest']]}; beyond 2/L it {grew} grow at some start."
        ),
    )


def _panel(kind: str, study: Mapping[str, Any]) -> Panel:
    rows = [row for row in study["rows"] if row["kind"] == kind]
    stated = study["stated"][kind] / study["largest"][kind]

    def draw(axes: Axes) -> None:
        steps = [row["of_largest"] for row in rows]
        axes.plot(steps, [row["worst"] for row in rows], marker="o", label="worst")
        axes.plot(steps, [row["median"] for row in rows], marker=".", label="median")
        axes.axhline(1.0, color="0.5", linewidth=0.8)
        axes.axvline(1.0, color="0.5", linestyle=":", label="2/L")
        axes.axvline(stated, color="0.5", linestyle="--", label="2μ/L²")
        axes.set_xscale("log")
        axes.set_yscale("log")

    return Panel(_TITLES[kind], "step, as a multiple of 2/L", "‖∇f(w')‖ / ‖∇f(w)‖", draw)
