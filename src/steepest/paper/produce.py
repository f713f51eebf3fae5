"""From names to pages: make what is missing, compute every artefact, write everything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from steepest.errors import SteepestError
from steepest.paper.artefact import Artefact, Findings, all_artefacts, find_artefact
from steepest.paper.departures import tell_departures
from steepest.paper.making import make_missing
from steepest.paper.missing import tell_missing
from steepest.paper.page import Made
from steepest.paper.publication import published
from steepest.paper.workspace import Workspace
from steepest.paper.writing import write_artefact, write_index


def choose(names: Sequence[str]) -> tuple[Artefact, ...]:
    """Return artefacts by their names, each once; ``all`` stands for every one.

    Raises:
        UnknownNameError: With the nearest name as the remedy.
    """
    if "all" in names:
        return all_artefacts()
    found = {one.name: one for one in map(find_artefact, names)}
    return tuple(found.values())


def produce(
    artefacts: Sequence[Artefact],
    work: Workspace,
    *,
    jobs: int | None = None,
    command: str = "",
    runs: bool = True,
) -> list[Made]:
    """Make artefacts and write their pages, and an index over them.

    Runs that several artefacts need are made once; what is complete is left alone, so that the
    same call goes on where it stopped.

    Args:
        artefacts: What to make.
        work: Where, at which size, and from what.
        jobs: Runs side by side; None picks a number for the machine.
        command: What the user typed, kept with the results.
        runs: Whether runs that are missing are made.

    Raises:
        RunFolderError: If a folder belongs to something else.
    """
    if runs:
        make_missing(work, artefacts, jobs=jobs, command=command)
    made = []
    with work.progress.task("artefacts", len(artefacts)) as step:
        for one in artefacts:
            made.append(compute(one, work))
            write_artefact(made[-1], work.level, work.out, command)
            step.advance(note=one.name)
    write_index(work.out, work.level)
    return made


def page_of(out: Path, made: Made) -> Path:
    """Return where an artefact's page is."""
    return out / made.artefact.name / "page.html"


def compute(one: Artefact, work: Workspace) -> Made:
    """Compute an artefact; what keeps it from being made is told on its page."""
    work.used.clear()
    try:
        findings = one.compute(work, published(one.name))
    except SteepestError as error:  # One artefact's trouble is no reason to leave out the others.
        findings = Findings(missing=(str(error),))
    findings = replace(
        findings,
        notes=(*findings.notes, *tell_departures(work, one.needs())),
        missing=(*findings.missing, *tell_missing(work, one.needs())),
    )
    return Made(one, findings, tuple(work.used.values()), work.out)
