"""A folder of records becomes a page, figures, a table and a summary on disk."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steepest.core.files import write_atomically
from steepest.core.journal import Entry
from steepest.experiment.comparison import HARDWARE, VERSIONS, Comparison, Run, by_metric, recorded
from steepest.experiment.report.figures import (
    draw_gains,
    draw_learning_curves,
    draw_penalty,
    render,
)
from steepest.experiment.report.page import render_page
from steepest.experiment.report.read import read_comparison
from steepest.experiment.report.store import open_store
from steepest.experiment.statistics import Summary, summarise

_RUN_COLUMNS = ("strategy", "seed", "cycle", "labelled")
_LATER_COLUMNS = {
    "training_seconds": ("training", "seconds"),
    "scoring_seconds": ("scoring", "seconds"),
    "scoring_peak_bytes": ("scoring", "peak_bytes"),
    "auxiliary_seconds": ("auxiliary", "seconds"),
    "entropy_ratio": ("regime", "entropy_ratio"),
    "rank_correlation": ("regime", "rank_correlation"),
}


@dataclass(frozen=True)
class ReportFiles:
    """Paths of the parts of a report.

    Attributes:
        html: The page; it needs none of the others.
        figures: PNG and SVG of each figure.
        csv: One row per strategy, seed and cycle.
        summary: Every statistic as JSON.
    """

    html: Path
    figures: tuple[Path, ...]
    csv: Path
    summary: Path


def write_report(
    folder: Path | str,
    out: Path | str | None = None,
    *,
    baseline: str | None = None,
    metric: str | None = None,
    own_code: bool = False,
) -> ReportFiles:
    """Write the report of a comparison or of a single run.

    Each file is replaced in one step, so that a reader never sees half of it.

    Args:
        folder: The folder of a comparison or a run, or the archive that ``pack`` made of it.
        out: Where to put the report; into ``folder`` if not given, and for an archive into the
            folder beside it that has its name.
        baseline: The strategy others are compared with; random if not given.
        metric: The metric compared, higher being better; by default the task's headline.
        own_code: Whether to run code that the folder names as its data set, for pictures and the
            classes' names. Say so only of a folder that is your own.

    Raises:
        RunFolderError: If the folder holds no records.
        JournalError: If a record is damaged.
        UnknownNameError: If the folder has no strategy of the baseline's name.
        InputError: If the baseline has no complete run, a record does not have the metric, or
            ``out`` cannot be written.
    """
    comparison = by_metric(read_comparison(folder), metric)
    summary = summarise(comparison, baseline)
    target = open_store(Path(folder)).place if out is None else Path(out)
    images = _draw(comparison, summary)
    page = render_page(comparison, summary, images, own_code=own_code)
    files = ReportFiles(
        html=target / "report.html",
        figures=tuple(target / "figures" / name for name in images),
        csv=target / "curves.csv",
        summary=target / "summary.json",
    )
    for path, data in zip(files.figures, images.values(), strict=True):
        write_atomically(path, data)
    write_atomically(files.csv, curves_csv(comparison))
    write_atomically(files.summary, _summary_json(comparison, summary))
    write_atomically(files.html, page)
    return files


def curves_csv(comparison: Comparison) -> str:
    """Return one row per strategy, seed and cycle; missing values are left empty.

    After the run and its labels come the metric that counts, the other metrics that are one
    number, the loss, the metric on the labelled samples, costs and regime.
    """
    columns = _recorded_columns(comparison)
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow((*_RUN_COLUMNS, *columns))
    for name in comparison.strategies:
        for run in comparison.begun_runs(name):
            writer.writerows(_row(run, entry, columns) for entry in run.entries)
    return buffer.getvalue()


def _draw(comparison: Comparison, summary: Summary) -> dict[str, bytes]:
    drawn = {"learning-curves": draw_learning_curves(comparison, summary)}
    if summary.contrasts:
        drawn["gains"] = draw_gains(comparison, summary)
    if summary.penalty is not None:
        drawn["penalty"] = draw_penalty(summary.penalty)
    return {
        f"{name}.{kind}": render(figure, kind)
        for name, figure in drawn.items()
        for kind in ("png", "svg")
    }


def _recorded_columns(comparison: Comparison) -> dict[str, tuple[str, str]]:
    """Return where each column's value is in a record: a part, and a key within it."""
    metric = comparison.metric
    numbers = [
        key
        for run in comparison.runs.values()
        for entry in run.entries
        for key, value in entry["metrics"].items()
        if isinstance(value, int | float) and key not in {metric, "loss"}
    ]
    return {
        **{key: ("metrics", key) for key in (metric, *dict.fromkeys(numbers), "loss")},
        f"train_{metric}": ("train_metrics", metric),
        **_LATER_COLUMNS,
    }


def _row(run: Run, entry: Entry, columns: dict[str, tuple[str, str]]) -> tuple[Any, ...]:
    recorded = ((entry.get(part) or {}).get(key) for part, key in columns.values())
    return (run.strategy, run.seed, entry["cycle"], entry["labelled"], *recorded)


def _summary_json(comparison: Comparison, summary: Summary) -> str:
    whole = {
        **summary.to_dict(),
        "command": comparison.command,
        "commands": comparison.commands,
        "versions": _versions(comparison),
        "config": dict(comparison.config),
    }
    return json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _versions(comparison: Comparison) -> dict[str, Any]:
    """Return what the records were made with: one value, or a list where they differ."""
    found = recorded(comparison, (*VERSIONS, *HARDWARE))
    return {key: values if len(values) > 1 else values[0] for key, values in found.items()}
