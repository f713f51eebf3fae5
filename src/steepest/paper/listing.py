"""Lists the artefacts, their needs, and the runs that are present."""

from __future__ import annotations

from collections.abc import Sequence

from steepest.experiment.report.text_table import text_table
from steepest.paper.artefact import Artefact
from steepest.paper.making import Wanted, absent_files, wanted_runs
from steepest.paper.workspace import Workspace


def list_artefacts(work: Workspace, artefacts: Sequence[Artefact]) -> str:
    """Return all artefacts with the state of their runs, and the plan of the runs."""
    rows = []
    for one in artefacts:
        runs = wanted_runs(work, [one])
        done = sum(run.complete for run in runs)
        rows.append(
            (one.name, one.paper, ", ".join(one.aliases), f"{done} of {len(runs)}", one.title)
        )
    head = text_table(("artefact", "in the paper", "also", "runs there", "what it shows"), rows)
    return f"{head}\n\n{_plan(wanted_runs(work, artefacts))}"


def _plan(runs: Sequence[Wanted]) -> str:
    groups: dict[str, list[Wanted]] = {}
    for run in runs:
        groups.setdefault(run.group, []).append(run)
    rows = []
    absent = []
    for name, own in groups.items():
        strategies = dict.fromkeys(run.strategy for run in own)
        left = sum(run.config.loop.cycles for run in own if not run.complete)
        problem = absent_files(own[0].config)
        if problem and left:
            absent.append(f"{name}: {problem}")
        state = "here" if not problem else "not here"
        seeds = len({run.seed for run in own})
        done = f"{sum(run.complete for run in own)} of {len(own)}"
        rows.append((name, len(strategies), seeds, done, left, state))
    head = ("runs of", "strategies", "seeds", "complete", "cycles left", "data")
    return "\n".join([text_table(head, rows), *absent])
