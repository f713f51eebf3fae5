"""The page of one artefact, and the index over all: each one file that needs nothing else."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from steepest.core.markup import (
    Safe,
    element,
    join,
    paragraph,
    section,
    table,
    whole_page,
)
from steepest.experiment.report.figures import inline_svg
from steepest.paper.artefact import Artefact, Findings
from steepest.paper.finished_runs import FinishedRun
from steepest.paper.level import Level
from steepest.paper.page_parts import FigurePart, Part, TablePart

State = Literal["complete", "partial", "not there"]

_TRIAL = "A trial run: it shows that everything works, on other data, and none of it is a result."


@dataclass(frozen=True)
class Made:
    """An artefact as it came out.

    Attributes:
        artefact: Which one.
        findings: Its numbers.
        runs: The runs behind them.
        out: The folder of the results; runs are named by their way from there.
    """

    artefact: Artefact
    findings: Findings
    runs: tuple[FinishedRun, ...] = ()
    out: Path = Path()

    def place(self, folder: Path) -> str:
        """Return where a folder is, seen from the folder of the results."""
        # Not every two folders have a way between them: on Windows they may be on two drives.
        try:
            return Path(os.path.relpath(folder, self.out)).as_posix()
        except ValueError:
            return str(folder)

    def title(self, level: Level) -> str:
        """Return its title, with the data for a trial."""
        stands = dict.fromkeys(level.stand_ins(self.artefact.needs()).values())
        if level.comparable or not stands:
            return self.artefact.title
        return f"{self.artefact.paper}, tried on {' and '.join(stands)}"

    def substitutions(self, level: Level) -> str:
        """Name the data that a trial used in place of the paper's."""
        stands: dict[str, list[str]] = {}
        for data, stand in level.stand_ins(self.artefact.needs()).items():
            stands.setdefault(stand, []).append(data)
        told = "; ".join(f"{stand} in place of {', '.join(of)}" for stand, of in stands.items())
        return f"{_TRIAL} Data used: {told}." if told else _TRIAL

    @property
    def state(self) -> State:
        """Whether it is complete."""
        if not any(row.get("ours") is not None for row in self.findings.rows):
            return "not there"
        return "partial" if self.findings.missing else "complete"


def render_artefact(
    made: Made, level: Level, parts: Sequence[Part], figures: Mapping[str, bytes], command: str
) -> str:
    """Return the page of one artefact.

    Args:
        made: What came out.
        level: At which size.
        parts: Tables and figures.
        figures: SVG files by the name of their part.
        command: The command as typed.
    """
    one = made.artefact
    header = element(
        "header",
        paragraph(one.paper, "kicker"),
        element("h1", made.title(level)),
        paragraph(_verdict(made, level), "headline"),
        None if level.comparable else paragraph(made.substitutions(level), "warning", role="note"),
        _facts(made, level, command),
    )
    shown = [_show(part, number, figures) for number, part in enumerate(parts)]
    main = element(
        "main", *shown, _sentences("notes", "To know", made.findings.notes),
        _sentences("missing", "Not there", made.findings.missing), _runs(made),
    )  # fmt: skip
    foot = "Beside this page: data.json, data.csv, table.md and the figures as SVG and PNG."
    back = element("a", "All artefacts", href="../index.html")
    return whole_page(made.title(level), header, main, join([element("p", back), paragraph(foot)]))


@dataclass(frozen=True)
class Entry:
    """An artefact that has its page, as the index names it.

    Attributes:
        name: Its name on the command line.
        title: Its title.
        paper: Its place in the paper.
        state: Whether all of it is there.
        runs: How many runs are behind it.
        command: The command that made it.
    """

    name: str
    title: str
    paper: str
    state: str
    runs: int
    command: str


def render_index(entries: Sequence[Entry], level: Level) -> str:
    """Return the page over all artefacts."""
    rows = [
        (
            element("a", one.title, href=f"{one.name}/page.html"),
            one.paper,
            one.name,
            one.state,
            f"{one.runs} runs",
            element("code", one.command),
        )
        for one in entries
    ]
    header = element(
        "header",
        paragraph("Boosting Active Learning via Improving Test Performance (AAAI-22)", "kicker"),
        element("h1", "The paper's tables and figures, made again"),
        None if level.comparable else paragraph(_TRIAL, "warning", role="note"),
        element("dl", _fact("preset", level.name)),
    )
    head = ("artefact", "in the paper", "name", "state", "made from", "by")
    main = element("main", section("artefacts", "Artefacts", table("One page each", head, rows)))
    return whole_page(
        "The paper, made again", header, main, paragraph("Each page has its data beside it.")
    )


def _verdict(made: Made, level: Level) -> str:
    """Say in a sentence how many numbers there are beside the paper's."""
    rows = made.findings.rows
    ours = [row for row in rows if row.get("ours") is not None]
    if not ours:
        alone = "; published numbers stand here alone" if level.comparable else ""
        return f"Nothing has been measured yet{alone}."
    seeds = sorted({seed for row in ours for seed in row.get("seeds", ())})
    text = f"{len(ours)} numbers measured, n = {len(seeds)} at most"
    apart = [abs(row["difference"]) for row in ours if row.get("difference") is not None]
    if not apart or not level.comparable:
        return f"{text}."
    middle = sorted(apart)[len(apart) // 2]
    return f"{text}; {len(apart)} have a published one, median distance {middle:.2f}."


def _facts(made: Made, level: Level, command: str) -> Safe:
    seeds = sorted({run.seed for run in made.runs})
    devices = dict.fromkeys(
        str(record.environment.get("device", "unknown"))
        for run in made.runs
        for record in run.records
    )
    return element(
        "dl",
        _fact("state", made.state),
        _fact("preset", level.name),
        _fact("seeds", ", ".join(map(str, seeds)) or "none"),
        _fact("hardware", ", ".join(devices) or "none"),
        _fact("command", element("code", command)),
    )


def _fact(name: str, value: object) -> Safe:
    return element("div", element("dt", name), element("dd", value))


def _show(part: Part, number: int, figures: Mapping[str, bytes]) -> Safe:
    identity = f"part-{number}"
    if isinstance(part, FigurePart):
        drawn = element(
            "div",
            inline_svg(figures[part.name], f"figure-{number}", part.description),
            class_="figure",
        )
        return section(identity, "Figure", drawn, paragraph(part.caption, "note"))
    note = paragraph(part.note, "note") if part.note else None
    return section(identity, part.title, _html_table(part), note)


def _html_table(part: TablePart) -> Safe:
    if not part.rows:
        return paragraph("No row yet.")
    return table(part.title, part.header, part.rows)


def _sentences(identity: str, title: str, sentences: Sequence[str]) -> Safe | None:
    if not sentences:
        return None
    return section(identity, title, *(paragraph(sentence) for sentence in sentences))


def _runs(made: Made) -> Safe | None:
    if not made.runs:
        return None
    rows: list[tuple[Any, ...]] = [
        (
            f"{run.setting}, {run.strategy}",
            str(run.seed),
            run.init,
            str(run.records[-1].labelled),
            made.place(run.folder),
            "; ".join(run.differences) or "nothing",
            ", ".join(made.place(folder) for folder in run.not_taken) or "–",
        )
        for run in made.runs
    ]
    head = (
        "run", "seed", "start", "labels", "records", "differs from the preset in",
        "also there, not taken",
    )  # fmt: skip
    return section("runs", "Runs behind this page", table("Every run, and where it is", head, rows))
