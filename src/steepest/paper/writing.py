"""Artefacts on disk: data, tables, figures, their pages, and the index over them."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steepest.core.files import write_atomically
from steepest.experiment.report.figures import GRID, SETTINGS, render
from steepest.paper.artefact import all_artefacts
from steepest.paper.level import Level
from steepest.paper.page import Entry, Made, render_artefact, render_index
from steepest.paper.page_parts import FigurePart, Part, Row, TablePart
from steepest.paper.published_numbers import published, published_table
from steepest.version import __version__

_FONT_SIZE = 9
"""Panels are narrower than the figures of a report."""


def write_artefact(made: Made, level: Level, out: Path, command: str) -> Path:
    """Write everything of one artefact, and return where its page is.

    Where nothing can be drawn, as on a server without matplotlib, figures are left out.
    """
    folder = out / made.artefact.name
    parts = _parts(made, level)
    if find_spec("matplotlib") is None:
        parts = tuple(part for part in parts if not isinstance(part, FigurePart))
    figures = [part for part in parts if isinstance(part, FigurePart)]
    vectors = {}
    for part in figures:
        drawn = draw_figure(part)
        vectors[part.name] = render(drawn, "svg")
        write_atomically(folder / f"{part.name}.svg", vectors[part.name])
        write_atomically(folder / f"{part.name}.png", render(drawn, "png"))
    write_atomically(folder / "data.json", _json(made, level, command))
    write_atomically(folder / "data.csv", rows_csv(made.findings.rows, level.name))
    write_atomically(folder / "table.md", _markdown(made, level, parts))
    page = folder / "page.html"
    write_atomically(page, render_artefact(made, level, parts, vectors, command))
    return page


def write_index(out: Path, level: Level) -> Path:
    """Write the page over all artefacts of a folder, whichever command made them."""
    known = {one.name: place for place, one in enumerate(all_artefacts())}
    found = [entry for file in out.glob("*/data.json") if (entry := _entry(file, level))]
    found.sort(key=lambda one: (known.get(one.name, len(known)), one.name))
    index = out / "index.html"
    write_atomically(index, render_index(found, level))
    return index


def _entry(file: Path, level: Level) -> Entry | None:
    """Return the stored summary of an artefact; None if missing or of another size."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        if data["preset"] != level.name:
            return None
        return Entry(
            name=str(data["artefact"]),
            title=str(data["title"]),
            paper=str(data["paper"]),
            state=str(data["state"]),
            runs=len(data["runs"]),
            command=str(data["command"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _parts(made: Made, level: Level) -> tuple[Part, ...]:
    """Return tables and figures; without numbers of ours, the published ones."""
    if not made.findings.rows:
        if not level.comparable:
            return ()
        words = published(made.artefact.name)
        return (published_table(words),) if words.series else ()
    shown = made.artefact.show(made.findings)
    return tuple(part for part in shown if isinstance(part, TablePart) or part.panels)


def rows_csv(rows: Sequence[Row], preset: str) -> str:
    """Return rows as CSV; missing values are empty, several values are joined by blanks.

    Args:
        rows: The result.
        preset: The size that it was made in, said in each row: a file is looked at alone.
    """
    header = list(dict.fromkeys(key for row in rows for key in row))
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["preset", *header])
    writer.writerows([preset, *(_plain(row.get(key)) for key in header)] for row in rows)
    return buffer.getvalue()


def markdown_table(part: TablePart) -> str:
    """Return a table as markdown."""
    lines = [part.header, ["---"] * len(part.header), *part.rows]
    text = "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |"
        for line in lines
    )
    note = f"\n{part.note}\n" if part.note else ""
    return f"### {part.title}\n\n{text}\n{note}"


def _plain(value: object) -> object:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else value


def _markdown(made: Made, level: Level, parts: Sequence[Part]) -> str:
    trial = [] if level.comparable else [f"{made.substitutions(level)}\n"]
    title = f"## {made.artefact.paper}: {made.title(level)}\n"
    tables = [markdown_table(part) for part in parts if isinstance(part, TablePart)]
    words = [f"- {sentence}" for sentence in (*made.findings.notes, *made.findings.missing)]
    return "\n".join([*trial, title, *tables, *words]) + "\n"


def _json(made: Made, level: Level, command: str) -> str:
    findings = made.findings
    whole: dict[str, Any] = {
        "artefact": made.artefact.name,
        "title": made.title(level),
        "paper": made.artefact.paper,
        "preset": level.name,
        "comparable": level.comparable,
        "state": made.state,
        "rows": [dict(row) for row in findings.rows],
        "notes": list(findings.notes),
        "missing": list(findings.missing),
        "more": dict(findings.more),
        "runs": [
            {
                "setting": run.setting,
                "strategy": run.strategy,
                "options": dict(run.config.strategy.options),
                "seed": run.seed,
                "init": run.init,
                "folder": made.place(run.folder),
                "differences": list(run.differences),
                "not_taken": [made.place(folder) for folder in run.not_taken],
                "environment": dict(run.records[-1].environment),
            }
            for run in made.runs
        ],
        "command": command,
        "steepest": __version__,
    }
    return json.dumps(whole, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_figure(part: FigurePart) -> Figure:
    """Draw the panels of a figure, two in a row, with one legend for all."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    columns = min(2, len(part.panels))
    lines = math.ceil(len(part.panels) / columns)
    with mpl.rc_context({**SETTINGS, "font.size": _FONT_SIZE}):
        figure = Figure(figsize=(0.8 + 4.4 * columns, 0.9 + 3.4 * lines), layout="constrained")
        legend: dict[str, Any] = {}
        for number, panel in enumerate(part.panels, start=1):
            axes = figure.add_subplot(lines, columns, number)
            panel.draw(axes)
            axes.set_title(panel.title, fontsize=10, parse_math=False)
            axes.set_xlabel(panel.x)
            axes.set_ylabel(panel.y)
            axes.grid(color=GRID, linewidth=0.7)
            axes.set_axisbelow(True)
            axes.spines[["top", "right"]].set_visible(False)
            handles, labels = axes.get_legend_handles_labels()
            for handle, label in zip(handles, labels, strict=True):
                legend.setdefault(label, handle)
        if legend:
            figure.legend(
                list(legend.values()), list(legend), loc="outside lower center",
                ncols=min(2 * columns, len(legend)), frameon=False, handlelength=3.2,
            )  # fmt: skip
    return figure
