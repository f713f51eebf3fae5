"""Beyond the paper: its two schemes are one function, shown on trained models."""

from __future__ import annotations

from typing import Any

from steepest.core.tables import to_table
from steepest.paper.analyses.schemes import compare_schemes
from steepest.paper.artefact import Artefact, Findings, artefact
from steepest.paper.finished_runs import FinishedRun
from steepest.paper.needed_runs import Need
from steepest.paper.page_parts import Part, Row, TablePart, cell
from steepest.paper.published_numbers import Published
from steepest.paper.run_examples import examples_of, some_of
from steepest.paper.workspace import Workspace

_MOST = 2000
_NOTES = (
    (
        "With cross-entropy the expected loss Σ p_i (−log p_i) is the entropy: Eqs. (6) and (7) "
        "are one function, and so are their gradients. Differences here are rounding."
    ),
    (
        "Two samples whose norms are equal but for rounding may change places; they are counted "
        "as moved."
    ),
    "With class weights, label smoothing or another training loss the two do differ.",
)


@artefact("schemes")
class Schemes(Artefact):
    """Difference of expected-gradnorm and entropy-gradnorm on trained models."""

    title = "Expected-gradnorm beside entropy-gradnorm, in double precision"
    paper = "Equations 6 and 7"
    aliases = ("identity",)

    def needs(self) -> tuple[Need, ...]:
        """Return one run of the paper's method."""
        return (Need("cifar10", ("entropy-gradnorm",), weights=True, seeds=1),)

    def compute(self, work: Workspace, published: Published) -> Findings:
        """Compare both norms of the same candidates in every cycle."""
        del published  # The paper treats them as two.
        rows: list[Row] = []
        with work.as_far_as_time_allows() as late:
            for run in work.runs(*self.needs()):
                for cycle in range(run.cycles):
                    found = _compare(work, run, cycle)
                    ours = {"ours": found["relative_difference"], "n": found["samples"]}
                    rows.append(
                        {"data": "cifar10", "cycle": cycle, **found, **ours, "seeds": [run.seed]}
                    )
        return Findings(tuple(rows), _NOTES, tuple(late))

    def show(self, findings: Findings) -> tuple[Part, ...]:
        """Return one table."""
        header = (
            "cycle", "samples", "largest norm", "largest difference", "relative",
            "rank correlation", "moved",
        )  # fmt: skip
        lines = tuple(
            (
                str(one["cycle"]), str(one["samples"]), f"{one['largest_norm']:.3g}",
                f"{one['largest_difference']:.1e}", f"{one['relative_difference']:.1e}",
                cell(one["rank_correlation"], 10), str(one["moved"]),
            )
            for one in findings.rows
        )  # fmt: skip
        return (TablePart(self.title, header, lines),)


def _compare(work: Workspace, run: FinishedRun, cycle: int) -> dict[str, Any]:
    def make() -> dict[str, Any]:
        most = _MOST if work.level.comparable else 40
        ids = some_of(work, work.candidates(run, cycle), most, "samples in double precision")
        pool = examples_of(work, run, ids)
        return to_table(
            compare_schemes(work.model(run, cycle), work.task(run), pool, progress=work.progress)
        )

    found: dict[str, Any] = work.remember(f"schemes/{run.key}/cycle-{cycle}", make)
    return found
