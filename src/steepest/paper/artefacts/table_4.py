"""Tables 4 and 5: of how many selected samples the gradient norm falls, with controls."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from steepest.core.seeds import SampleId, derive, random_subset
from steepest.core.tables import to_table
from steepest.errors import InputError
from steepest.gradnorm.norms import SampleNorm
from steepest.paper.analyses.ranking import highest
from steepest.paper.analyses.sample_norms import LABEL_FREE, NORMS, LossName, sample_norms
from steepest.paper.artefact import Artefact, Findings, artefact
from steepest.paper.finished_runs import FinishedRun
from steepest.paper.needed_runs import Need
from steepest.paper.page_parts import Part, Row, TablePart, curve_table
from steepest.paper.published_numbers import Number, Published, row
from steepest.paper.run_examples import examples_of
from steepest.paper.workspace import Workspace
from steepest.strategies.algorithms.ranking import Values

_LOSSES = {"expected-gradnorm": "expected", "entropy-gradnorm": "entropy"}
_NOTES = (
    (
        "A sample counts if ‖∇L(T(c+1)(x))‖ ≤ ‖∇L(T(c)(x))‖. Selected samples are trained on in "
        "between and were selected for a high norm, both of which tend to lower it whatever the "
        "theory: the other rows are of samples that were not trained on, all of them, as many "
        "at random, and those of highest norm that were left."
    ),
    (
        "Under the method random, selected samples are those that were drawn at random and "
        "trained on."
    ),
    "The paper counts cycles from 1 here: its cycle c + 1 is from T(c) to T(c+1).",
    (
        "For plain cross-entropy the two losses are one function, so that within a run their "
        "rows cannot differ but for rounding; where the paper's two tables differ, their runs "
        "do."
    ),
)
SELECTED = "selected"
UNSELECTED = "not selected"
DRAWN = "not selected, drawn at random"
NEXT = "not selected, highest norms"
"""Groups of samples: the chosen ones, all others, K random others, the K with highest norm."""


@artefact("table-4")
class FallingNorms(Artefact):
    """Share of selected samples whose gradient norm is not higher in the next cycle."""

    title = "Samples whose gradient norm is not higher in the next cycle (% of the group)"
    paper = "Appendix A.2, Tables 4 and 5"
    aliases = ("table-5", "a2", "falling-norms")

    def needs(self) -> tuple[Need, ...]:
        """Return the runs of the two schemes, and of random as the control."""
        return (Need("cifar10", (*_LOSSES, "random"), weights=True),)

    def compute(self, work: Workspace, published: Published) -> Findings:
        """Count falling norms between any two cycles."""
        cells: list[dict[str, Any]] = []
        with work.as_far_as_time_allows() as late:
            for run in work.runs(*self.needs()):
                about = {"seed": run.seed, "method": run.strategy}
                for cycle in range(run.cycles - 1):
                    cells += [{**cell, **about} for cell in _between(work, run, cycle)]
        rows = _rows(cells, published, comparable=work.level.comparable)
        return Findings(rows=rows, notes=_NOTES, missing=tuple(late))

    def show(self, findings: Findings) -> tuple[Part, ...]:
        """Return a table for each method's runs, loss and norm."""
        groups: dict[tuple[str, str, str], list[Row]] = {}
        for one in findings.rows:
            groups.setdefault((one["runs of"], one["loss"], one["norm"]), []).append(one)
        return tuple(_table(key, some) for key, some in groups.items())


def _between(work: Workspace, run: FinishedRun, cycle: int) -> list[dict[str, Any]]:
    def make() -> list[dict[str, Any]]:
        ids = work.unlabelled(run, cycle)
        pool = examples_of(work, run, ids)
        before, after = (
            sample_norms(
                work.model(run, one), work.task(run), pool, LABEL_FREE, progress=work.progress
            )
            for one in (cycle, cycle + 1)
        )
        found = []
        for loss in LABEL_FREE:
            for norm in NORMS:
                first, second = before[loss, norm], after[loss, norm]
                groups = control_groups(
                    ids, first, run.records[cycle].selected, cycle=cycle,
                    seed=derive(work.seed, run.seed),
                )  # fmt: skip
                found += count_falls(ids, first, second, groups, cycle=cycle, loss=loss, norm=norm)
        return [to_table(one) for one in found]

    found: list[dict[str, Any]] = work.remember(f"table-4/{run.key}/cycle-{cycle}", make)
    return found


def _rows(
    cells: Sequence[Mapping[str, Any]],
    published: Published,
    *,
    comparable: bool,
) -> tuple[Row, ...]:
    groups: dict[tuple[str, str, str, str, int], list[Mapping[str, Any]]] = {}
    for one in cells:
        key = (one["method"], one["loss"], one["norm"], one["group"], one["cycle"])
        groups.setdefault(key, []).append(one)
    rows = []
    for (method, loss, norm, group, cycle), some in groups.items():
        about = {
            "data": "cifar10", "runs of": method, "loss": loss, "norm": norm, "method": group,
            "cycle": cycle + 1, "samples": some[0]["samples"],
            "before": sum(one["before"] for one in some) / len(some),
            "after": sum(one["after"] for one in some) / len(some),
        }  # fmt: skip
        number = None
        if group == "selected" and _LOSSES.get(method) == loss:
            number = published.number(at=cycle + 1, scheme=method)
        values = {one["seed"]: 100 * one["share"] for one in some}
        # Published as a number of samples out of 2,500.
        share = None if number is None else Number(number.value / 25, number.source)
        rows.append(row(about, values, share, comparable=comparable))
    return tuple(rows)


def _table(key: tuple[str, str, str], rows: Sequence[Row]) -> TablePart:
    method, loss, norm = key
    title = f"Norms that fall (%), runs of {method}: loss {loss}, {norm}"
    found = curve_table(title, rows, place="cycle", unit="")
    return TablePart(found.title, ("group", *found.header[1:]), found.rows, found.note)


@dataclass(frozen=True, kw_only=True)
class Falls:
    """One group of samples between two cycles.

    Attributes:
        cycle: Counted from 0: that of T(c); the norm falls if that under T(c+1) is not higher.
        loss: The loss.
        norm: The norm of its gradient.
        group: The samples.
        samples: How many they are.
        fallen: Of how many the norm is not higher afterwards.
        share: ``fallen`` / ``samples``.
        before: Mean norm under T(c).
        after: Mean norm under T(c+1).
    """

    cycle: int
    loss: LossName
    norm: SampleNorm
    group: str
    samples: int
    fallen: int
    share: float
    before: float
    after: float


def control_groups(
    ids: Sequence[SampleId],
    before: Values,
    selected: Collection[SampleId],
    *,
    cycle: int,
    seed: int,
) -> dict[str, frozenset[SampleId]]:
    """Return the selected samples, and three groups of those that nothing was trained on.

    Args:
        ids: All samples without a label in cycle c [N], whether they were scored or not.
        before: Their norms under T(c) [N].
        selected: What was chosen then.
        cycle: Counted from 0.
        seed: Draws the random group, and breaks ties.

    Raises:
        InputError: If a selected sample is not among them, or nothing else is.
    """
    chosen = frozenset(selected)
    if not chosen or not chosen <= set(ids):
        raise InputError("the selected samples must be some of those without a label")
    rest = [row for row, name in enumerate(ids) if name not in chosen]
    if not rest:
        raise InputError("every sample was selected: there is nothing to compare with")
    others = [ids[row] for row in rest]
    size = min(len(chosen), len(others))
    own = derive(seed, "falls", cycle)
    drawn = random_subset(others, size, own, "control group")
    return {
        SELECTED: chosen,
        UNSELECTED: frozenset(others),
        DRAWN: frozenset(others[int(row)] for row in drawn),
        NEXT: highest(before[rest], others, size, own),
    }


def count_falls(
    ids: Sequence[SampleId],
    before: Values,
    after: Values,
    groups: Mapping[str, Collection[SampleId]],
    *,
    cycle: int,
    loss: LossName,
    norm: SampleNorm,
) -> list[Falls]:
    """Count in each group the samples whose norm is not higher afterwards.

    Args:
        ids: [N].
        before: Norms under T(c) [N].
        after: Norms under T(c+1) [N].
        groups: Ids by the name of the group.
        cycle: Counted from 0.
        loss: The loss.
        norm: The norm.

    Raises:
        InputError: If numbers of samples differ, or a group has a sample without a norm.
    """
    if not len(ids) == len(before) == len(after):
        raise InputError("norms before and after are of different samples: use one pool for both")
    places = {name: row for row, name in enumerate(ids)}
    found = []
    for group, members in groups.items():
        if not members or any(name not in places for name in members):
            raise InputError(f"the group {group!r} is empty or has samples without a norm")
        rows = np.array([places[name] for name in members])
        fallen = int((after[rows] <= before[rows]).sum())
        found.append(
            Falls(
                cycle=cycle,
                loss=loss,
                norm=norm,
                group=group,
                samples=len(rows),
                fallen=fallen,
                share=fallen / len(rows),
                before=float(before[rows].mean()),
                after=float(after[rows].mean()),
            )
        )
    return found
