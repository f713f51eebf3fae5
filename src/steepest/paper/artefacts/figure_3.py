"""Figure 3: the influence and the three bounds above it, cycle by cycle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from steepest.core.tables import to_table
from steepest.gradnorm.norms import SampleNorm
from steepest.paper.analyses.agreement import influences_along
from steepest.paper.analyses.bound_chain import chain_of_bounds
from steepest.paper.analyses.sample_norms import LABEL_FREE, sample_norms
from steepest.paper.artefact import Artefact, Findings, artefact
from steepest.paper.finished_runs import FinishedRun
from steepest.paper.model_directions import ModelDirections
from steepest.paper.needed_runs import Need
from steepest.paper.page_parts import FigurePart, Panel, Part, TablePart
from steepest.paper.published_numbers import Published
from steepest.paper.run_examples import examples_of, some_of
from steepest.paper.workspace import Workspace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TERMS = {
    "target": "|Target|", "approx1": "Approx-1", "approx2": "Approx-2", "approx3": "Approx-3",
}  # fmt: skip
_NORM: SampleNorm = "l2"
_NOTES = (
    (
        "Means over the samples without a label when T(c+1) was trained, or over a fixed random "
        "part of them: the table says how many. Target and Approx-1 are about T(c+1), Approx-2 "
        "has its gradients, Approx-3 those of T(c); s is that of T(c+1) in all."
    ),
    (
        "Tested for every sample: Approx-1 = |Target| ≤ Approx-2, by Cauchy and Schwarz; and "
        "|mean Target| ≤ mean Approx-1. From Approx-2 to Approx-3 there is no inequality: the "
        "share of samples that go the other way is in the table."
    ),
    (
        "The curvature is the Gauss–Newton matrix of the training loss: the paper assumes a "
        "Hessian that is positive definite, which a net's need not be; Table 2 tells what was "
        "met. The paper does not say its damping; several are shown."
    ),
    (
        "The two schemes were computed apart, from their own losses; the table says by how much "
        "they differ. For plain cross-entropy they are one function."
    ),
    "The paper's figure is not in its source and has no printed numbers.",
)


@artefact("figure-3")
class Bounds(Artefact):
    """Target, Approx-1, Approx-2 and Approx-3 of both schemes."""

    title = "Influence and its bounds, means over unlabelled samples"
    paper = "Figure 3"
    aliases = ("bounds",)

    def needs(self) -> tuple[Need, ...]:
        """Return one run of the paper's method."""
        return (Need("cifar10", ("entropy-gradnorm",), weights=True, seeds=1),)

    def compute(self, work: Workspace, published: Published) -> Findings:
        """Compute the four terms between any two cycles."""
        del published  # There are no numbers to set beside.
        chains: list[dict[str, Any]] = []
        notes, missing = list(_NOTES), list[str]()
        for run in work.runs(*self.needs()):
            directions = ModelDirections(work, run, LABEL_FREE, ("gauss-newton",))
            notes.append(directions.describe())
            with work.as_far_as_time_allows() as late:
                for cycle in range(run.cycles - 1):
                    found = _chains(work, run, cycle, directions)
                    chains += [{**one, "seed": run.seed} for one in found]
            missing += late
        rows = tuple(
            {
                "data": "cifar10", "cycle": one["cycle"], "scheme": one["scheme"],
                "curvature": one["curvature"], "damping": one["damping"], "term": term,
                "ours": one[term], "n": one["samples"], "seeds": [one["seed"]],
            }
            for one in chains
            for term in _TERMS
        )  # fmt: skip
        more = {"chains": chains, "identity": _identity(chains)}
        return Findings(rows, tuple(dict.fromkeys(notes)), tuple(missing), more)

    def show(self, findings: Findings) -> tuple[Part, ...]:
        """Return the figure on a logarithmic scale, the tests, and the identity."""
        chains = findings.more.get("chains", [])
        dampings = dict.fromkeys(one["damping"] for one in chains)
        panels = tuple(
            _panel(scheme, damping, chains)
            for damping in dampings
            for scheme in ("expected", "entropy")
        )
        figure = FigurePart(
            "bounds",
            "Target and its bounds on a logarithmic scale; Target by its absolute value.",
            "Four lines over cycles for each scheme and damping.",
            panels,
        )
        return figure, _table(chains), _identity_table(findings.more.get("identity", []))


def _chains(
    work: Workspace, run: FinishedRun, cycle: int, directions: ModelDirections
) -> list[dict[str, Any]]:
    def make() -> list[dict[str, Any]]:
        ids = work.unlabelled(run, cycle + 1)
        if (most := work.level.effort.pool) is not None:
            ids = some_of(work, ids, most, "samples of the bounds")
        pool, task = examples_of(work, run, ids), work.task(run)
        after, before = (
            sample_norms(
                work.model(run, one), task, pool, LABEL_FREE, (_NORM,), progress=work.progress
            )
            for one in (cycle + 1, cycle)
        )
        targets = influences_along(
            work.model(run, cycle + 1), task, pool, directions.of(cycle + 1),
            progress=work.progress,
        )  # fmt: skip
        found = []
        for one in targets:
            if one.values is not None:
                key = (one.direction.loss, _NORM)
                found.append(chain_of_bounds(one, after[key], before[key], cycle=cycle, norm=_NORM))
        return [to_table(one) for one in found]

    key = f"figure-3/{work.level.effort.key}/{run.key}/cycle-{cycle}"
    found: list[dict[str, Any]] = work.remember(key, make)
    return found


def _identity(chains: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return by how much the terms of the two schemes differ, as a share of the larger."""
    pairs: dict[tuple[Any, ...], dict[str, Mapping[str, Any]]] = {}
    for one in chains:
        key = (one["cycle"], one["curvature"], one["damping"])
        pairs.setdefault(key, {})[one["scheme"]] = one
    found = []
    for (cycle, curvature, damping), both in pairs.items():
        if len(both) == 2:
            a, b = both.values()
            differences = {term: _relative(a[term], b[term]) for term in _TERMS}
            about = {"cycle": cycle, "curvature": curvature, "damping": damping}
            found.append({**about, **differences})
    return found


def _relative(a: float, b: float) -> float:
    size = max(abs(a), abs(b))
    return abs(a - b) / size if size else 0.0


def _strength(damping: float | None) -> str:
    return "λ → ∞" if damping is None else f"λ = {damping:g}"


def _panel(scheme: str, damping: float | None, chains: Sequence[Mapping[str, Any]]) -> Panel:
    some = [one for one in chains if one["scheme"] == scheme and one["damping"] == damping]

    def draw(axes: Axes) -> None:
        cycles = [one["cycle"] for one in some]
        for term, name in _TERMS.items():
            axes.plot(cycles, [abs(one[term]) for one in some], marker="o", label=name)
        axes.set_yscale("log")
        axes.set_xticks(cycles)

    return Panel(f"{scheme}-gradnorm, {_strength(damping)}", "cycle c", "mean", draw)


def _table(chains: Sequence[Mapping[str, Any]]) -> TablePart:
    header = (
        "cycle", "scheme", "λ", "Target", "Approx-1", "Approx-2", "Approx-3",
        "median Approx-2 / |Target|", "samples", "broken", "|mean| ≤ mean", "Approx-2 > Approx-3",
        "solved",
    )  # fmt: skip
    lines = tuple(
        (
            str(one["cycle"]), one["scheme"], _strength(one["damping"]),
            *(f"{one[term]:.3g}" for term in _TERMS),
            "–" if one["median_ratio"] is None else f"{one['median_ratio']:.3g}",
            str(one["samples"]), str(one["broken"]), "yes" if one["mean_holds"] else "no",
            f"{one['above_before']:.1%}", "yes" if one["sound"] else "no",
        )
        for one in chains
    )  # fmt: skip
    note = "Broken: samples with |Target| > Approx-2, which only a wrong computation can have."
    return TablePart("The four terms and what was tested of them", header, lines, note)


def _identity_table(identity: Sequence[Mapping[str, Any]]) -> TablePart:
    lines = tuple(
        (
            str(one["cycle"]), _strength(one["damping"]), *(f"{one[term]:.1e}" for term in _TERMS)
        )
        for one in identity
    )  # fmt: skip
    header = ("cycle", "λ", *_TERMS.values())
    note = "Relative difference of the means; single precision has about seven digits."
    return TablePart("Expected beside entropy: are they one?", header, lines, note)
