"""The gap between training and test accuracy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steepest.experiment.comparison import headline_metric
from steepest.paper.artefact import Artefact, Findings, artefact
from steepest.paper.needed_runs import Need
from steepest.paper.page_parts import Part, Row, curve_table
from steepest.paper.protocol import TABLE_METHODS, share_of
from steepest.paper.published_numbers import Published, row

if TYPE_CHECKING:
    from steepest.paper.workspace import Workspace


@artefact("table-3")
class Gap(Artefact):
    """Training accuracy less test accuracy after each cycle but the first."""

    title = "Gap between training and test accuracy on CIFAR-10"
    paper = "Table 3"
    aliases = ("gap",)

    def needs(self) -> tuple[Need, ...]:
        """Return the paper's methods, and those it leaves out where they are found."""
        beside = ("random", "entropy", "margin", "fisher-gradnorm")
        return Need("cifar10", TABLE_METHODS), Need("cifar10", beside, only_if_found=True)

    def compute(self, work: Workspace, published: Published) -> Findings:
        """Read both accuracies off the records."""
        rows: list[Row] = []
        for need in self.needs():
            for strategy in need.strategies:
                gaps: dict[int, dict[int, float]] = {}
                for run in (r for r in work.runs(need) if r.strategy == strategy):
                    metric = headline_metric(run.config.task.name)
                    for record in run.records[1:]:
                        gap = float(record.train_metrics[metric]) - float(record.metrics[metric])
                        gaps.setdefault(share_of(record.cycle), {})[run.seed] = 100 * gap
                published_gaps = {int(at) for s in published.find(method=strategy) for at in s.at}
                if need.only_if_found and not gaps:
                    continue
                rows += [
                    row(
                        {"data": "cifar10", "method": strategy, "share": at},
                        gaps.get(at, {}),
                        published.number(at, method=strategy),
                        comparable=work.level.comparable,
                    )
                    for at in sorted({*gaps, *published_gaps})
                ]
        notes = (
            "Training accuracy is measured on the labelled samples, without augmentation.",
            "A smaller gap at an equal training accuracy is nothing but a higher test accuracy.",
        )
        return Findings(tuple(rows), notes)

    def show(self, findings: Findings) -> tuple[Part, ...]:
        """Return the table."""
        return (curve_table("Training less test accuracy in points", findings.rows),)
