"""Table 2: agreement of the criterion with the exact influence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from steepest.core.seeds import derive
from steepest.core.tables import from_table, to_table
from steepest.experiment.report.numbers import DASH
from steepest.paper.analyses.agreement import (
    Agreement,
    Reading,
    Targets,
    WhichModel,
    agreement_grid,
    order_by_distance,
)
from steepest.paper.analyses.sample_norms import LossName, sample_norms
from steepest.paper.artefact import Artefact, Findings, artefact
from steepest.paper.finished_runs import FinishedRun
from steepest.paper.model_directions import ModelDirections, ModelInfluences
from steepest.paper.needed_runs import Need
from steepest.paper.page_parts import Part, Row, TablePart, cell
from steepest.paper.published_numbers import Published, row
from steepest.paper.run_examples import examples_of
from steepest.paper.workspace import Workspace

_LOSSES: tuple[LossName, ...] = ("true-label", "entropy")
_PURPOSE = "oracle analysis: gradient norms of candidates with their labels"
_OUT_OF = 2500
_FIRST = 10
_NOTES = (
    (
        "The paper does not say by which model, loss, sign, damping and curvature its influence "
        "was computed, nor how an indefinite Hessian was inverted. Every reading is here; which "
        "one is nearest to the published numbers was found afterwards and chosen by nobody."
    ),
    (
        "T(c) is the model that chose, T(c+1) the one trained on what was chosen, as Eq. (3) "
        "has it; after the last cycle there is none."
    ),
    (
        "λ → ∞ is the product of gradients, without curvature. Readings with * are not sound: "
        "the matrix was found to be indefinite, or the system was not solved to its tolerance."
    ),
    "Labels of candidates and test samples are used for this analysis alone.",
)


@artefact("table-2")
class Consistency(Artefact):
    """Agreement of the criterion with the exact influence, under every reading."""

    title = "Samples that the criterion and the exact influence have in common"
    paper = "Table 2"
    aliases = ("consistency",)

    def needs(self) -> tuple[Need, ...]:
        """Return one run of the paper's method."""
        return (Need("cifar10", ("entropy-gradnorm",), weights=True, seeds=1),)

    def compute(self, work: Workspace, published: Published) -> Findings:
        """Compute the grid of every cycle, then look for the nearest reading."""
        cells: list[Mapping[str, Any]] = []
        notes, missing = list(_NOTES), list[str]()
        for run in work.runs(*self.needs()):
            directions = ModelDirections(work, run, _LOSSES)
            influences = ModelInfluences(work, run, directions)
            notes.append(directions.describe())
            with work.as_far_as_time_allows() as late:
                for cycle in range(run.cycles):
                    found = _grid(work, run, cycle, influences)
                    cells += [{**one, "seed": run.seed} for one in found]
            missing += late
        numbers = {
            cycle: number.value / _OUT_OF
            for cycle in sorted({one["cycle"] for one in cells})
            if (number := published.number(at=cycle, quantity="criterion"))
            and work.level.comparable
        }
        near = order_by_distance(_agreements(cells), numbers)
        rows = tuple(_row(one, published, comparable=work.level.comparable) for one in cells)
        more = {"distances": [to_table(one) for one in near], "solvers": _solvers(cells)}
        return Findings(tuple(rows), tuple(dict.fromkeys(notes)), tuple(missing), more)

    def show(self, findings: Findings) -> tuple[Part, ...]:
        """Return the nearest readings, then all of them by criterion, then the solvers."""
        near = findings.more.get("distances", [])
        parts: list[Part] = [_nearest(near)] if near else []
        groups: dict[tuple[str, str], list[Row]] = {}
        for one in findings.rows:
            groups.setdefault((one["criterion_loss"], one["norm"]), []).append(one)
        parts += [_table(self.title, key, some) for key, some in groups.items()]
        return (*parts, _solver_table(findings.more.get("solvers", [])))


def _grid(
    work: Workspace, run: FinishedRun, cycle: int, influences: ModelInfluences
) -> list[dict[str, Any]]:
    def make() -> list[dict[str, Any]]:
        ids = work.candidates(run, cycle)
        pool = examples_of(work, run, ids, _PURPOSE)
        criterion = sample_norms(
            work.model(run, cycle), work.task(run), pool, _LOSSES, progress=work.progress
        )
        both: tuple[tuple[WhichModel, int], ...] = (("T(c)", cycle), ("T(c+1)", cycle + 1))
        targets: dict[WhichModel, Sequence[Targets]] = {
            which: influences.of(number, ids) for which, number in both if number < run.cycles
        }
        found = agreement_grid(
            targets, criterion, ids, cycle=cycle, k=min(run.config.loop.k, len(ids)),
            seed=derive(work.seed, run.seed),
        )  # fmt: skip
        return [to_table(one) for one in found]

    key = f"table-2/{work.level.effort.key}/{run.key}/cycle-{cycle}"
    found: list[dict[str, Any]] = work.remember(key, make)
    return found


def _agreements(cells: Sequence[Mapping[str, Any]]) -> list[Agreement]:
    return [
        from_table(Agreement, {name: value for name, value in one.items() if name != "seed"})
        for one in cells
    ]


def _row(one: Mapping[str, Any], published: Published, *, comparable: bool) -> Row:
    about = {
        "data": "cifar10", "cycle": one["cycle"], **one["reading"], "k": one["k"],
        "candidates": one["candidates"], "chance": one["chance"], "chance_sd": one["chance_sd"],
        "rank_correlation": one["rank_correlation"], "sound": one["sound"],
    }  # fmt: skip
    values = {} if one["overlap"] is None else {one["seed"]: float(one["overlap"])}
    number = published.number(at=one["cycle"], quantity="criterion")
    return row(about, values, number, comparable=comparable)


def _solvers(cells: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the solvers' reports, once for each system."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for one in cells:
        reading = one["reading"]
        number = one["cycle"] + (reading["model"] == "T(c+1)")
        key = (number, reading["curvature"], reading["damping"], reading["target_loss"])
        names = ("iterations", "residual", "smallest_eigenvalue", "indefinite", "converged", "note")
        said = {name: one["solver"].get(name) for name in names}
        about = zip(("model of cycle", "curvature", "damping", "loss"), key, strict=True)
        found.setdefault(key, {**dict(about), **said})
    return list(found.values())


def _nearest(near: Sequence[Mapping[str, Any]]) -> TablePart:
    lines = tuple(
        (
            from_table(Reading, one["reading"]).describe(),
            f"{one['share']:.1%}",
            f"{one['published']:.1%}",
            f"{100 * one['distance']:.1f}",
            f"{one['cycles']}",
            "nearest" if one["nearest"] else "",
            "" if one["sound"] else "*",
        )
        for one in near[:_FIRST]
    )
    header = ("reading", "ours", "published", "distance (points)", "cycles", "", "")
    note = f"The first {len(lines)} of {len(near)} readings, ordered after all were computed."
    return TablePart("Readings nearest to the published numbers", header, lines, note)


def _table(title: str, key: tuple[str, str], rows: Sequence[Row]) -> TablePart:
    cycles = sorted({one["cycle"] for one in rows})
    lines: dict[tuple[Any, ...], dict[int, str]] = {}
    names = ("model", "curvature", "damping", "target_loss", "sign")
    for one in rows:
        mark = "" if one["sound"] else "*"
        text = f"{cell(one['ours'], 0)}{mark} ({cell(one['rank_correlation'])})"
        lines.setdefault(tuple(one[name] for name in names), {})[one["cycle"]] = text
    body = tuple(
        (
            which, curvature, "∞" if damping is None else f"{damping:g}", loss, sign,
            *(by_cycle.get(cycle, DASH) for cycle in cycles),
        )
        for (which, curvature, damping, loss, sign), by_cycle in lines.items()
    )  # fmt: skip
    paper = {one["cycle"]: one["paper"] for one in rows}
    published = ("published", "", "", "", "", *(cell(paper[c], 0) for c in cycles))
    first = rows[0]
    note = (
        f"Overlap of the {first['k']} highest of {first['candidates']}, and rank correlation over "
        f"all of them; by chance {first['chance']:.0f} ± {first['chance_sd']:.1f}."
    )
    header = ("influence at", "curvature", "λ", "loss", "sign", *(f"cycle {c}" for c in cycles))
    return TablePart(f"{title}: criterion {key[0]}, {key[1]}", header, (published, *body), note)


def _solver_table(solvers: Sequence[Mapping[str, Any]]) -> TablePart:
    header = (
        "model of cycle",
        "curvature",
        "λ",
        "loss",
        "products",
        "residual",
        "smallest eigenvalue",
        "indefinite",
        "converged",
    )
    lines = tuple(
        (
            str(one["model of cycle"]), one["curvature"],
            "∞" if one["damping"] is None else f"{one['damping']:g}", one["loss"],
            cell(one["iterations"]), _small(one["residual"]), _small(one["smallest_eigenvalue"]),
            "yes" if one["indefinite"] else "no", "yes" if one["converged"] else "no",
        )
        for one in solvers
    )  # fmt: skip
    note = "The smallest eigenvalue is the smallest one met, λ included: an upper bound."
    return TablePart("Linear systems behind the influences", header, lines, note)


def _small(value: float | None) -> str:
    return DASH if value is None else f"{value:.1e}"
