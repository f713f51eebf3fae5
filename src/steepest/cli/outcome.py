"""Output of a finished comparison: a table, and the path of the report."""

from __future__ import annotations

from pathlib import Path

from steepest.experiment.comparison import by_metric
from steepest.experiment.report import write_report
from steepest.experiment.report.headline import headline, hidden_labels_read
from steepest.experiment.report.read import read_comparison
from steepest.experiment.report.tables import summary_rows, text_table
from steepest.experiment.statistics import summarise


def show_outcome(
    folder: Path, *, report: bool = True, baseline: str | None = None, metric: str | None = None
) -> None:
    """Print the table of a comparison, and write its report if asked to.

    Args:
        folder: The comparison's.
        report: Whether to write the page.
        baseline: The strategy others are compared with; random if not given.
        metric: The metric compared; by default the task's headline.

    Raises:
        UnknownNameError: If the comparison has no strategy of the baseline's name.
        InputError: If the baseline has no complete run, or a record does not have the metric.
    """
    comparison = by_metric(read_comparison(folder), metric)
    summary = summarise(comparison, baseline)
    # First, as a disk may be too full for the rest.
    if summary.strategies:
        print(text_table(*summary_rows(summary)))
    else:
        print(*headline(summary))
    if warning := hidden_labels_read(comparison):
        print(f"\n{warning}")
    if report:
        # The folder was checked against the user's own configuration before anything was run.
        files = write_report(folder, baseline=baseline, metric=metric, own_code=True)
        print(f"\nReport: {files.html}")
