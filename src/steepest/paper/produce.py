"""Makes missing runs, computes every artefact, and writes the pages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from steepest.errors import SteepestError
from steepest.experiment.report.tables import text_table
from steepest.paper.artefact import Artefact, Findings, all_artefacts, find_artefact
from steepest.paper.missing_runs import Wanted, absent_files, make_missing, wanted_runs
from steepest.paper.needed_runs import Need
from steepest.paper.page import Made
from steepest.paper.protocol import MENDED
from steepest.paper.published_numbers import Published, published
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
    same call resumes where it stopped.

    Args:
        artefacts: The artefacts to make.
        work: Where, at which size, and from what.
        jobs: Runs side by side; None picks a number for the machine.
        command: The command as typed, kept with the results.
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
    """Compute an artefact; if it cannot be made, its page says why."""
    work.used.clear()
    try:
        # No published number stands beside one that other data gave.
        known = published(one.name) if work.level.comparable else Published()
        findings = one.compute(work, known)
    except SteepestError as error:  # One artefact's trouble is no reason to leave out the others.
        findings = Findings(missing=(str(error),))
    findings = replace(
        findings,
        notes=(*findings.notes, *tell_departures(work, one.needs())),
        missing=(*findings.missing, *tell_missing(work, one.needs())),
    )
    return Made(one, findings, tuple(work.used.values()), work.out)


def tell_departures(work: Workspace, needs: Iterable[Need]) -> tuple[str, ...]:
    """Return a sentence for each data set and strategy that has its own settings.

    Args:
        work: Its runs that were used are those behind the artefact.
        needs: The inputs of the artefact.
    """
    level = work.level
    strategies = list(dict.fromkeys(run.strategy for run in work.used.values()))
    changes = {need.setting: level.changes_of(need.setting) for need in needs}
    for name in strategies:
        options = level.own_options.get(name, {}).items()
        changes[name] = tuple(f"{option}={json.dumps(value)}" for option, value in options)
    found = [f"{name} was run with {', '.join(s)}, by --set." for name, s in changes.items() if s]
    mended = [
        f"{name} was run with mended losses, under which its codes do not collapse; "
        f"--set {name}:published=true runs those of the published code."
        for name in strategies
        if name in MENDED and not level.own_options.get(name, {}).get("published")
    ]
    return (*found, *mended)


def tell_missing(work: Workspace, needs: Iterable[Need]) -> tuple[str, ...]:
    """Return a sentence for each missing thing, with the remedy."""
    sentences: dict[str, None] = {}
    for need in needs:
        if not need.only_if_found:
            sentences.update(dict.fromkeys((*_absent(work, need), *_left_out(work, need))))
    return tuple(sentences)


def _left_out(work: Workspace, need: Need) -> Iterable[str]:
    """Report parts of the paper's table that were not requested, so that it is partial."""
    group, level = work.comparison(need).name, work.level
    others = [name for name in need.strategies if name not in work.only]
    if work.only and others:
        yield f"{group}: {', '.join(others)} left out by --strategies"
    asked = len(level.seeds_of(need.setting, need.seeds))
    planned = level.planned_seeds(need.setting, need.seeds)
    if asked < planned:
        yield f"{group}: {asked} of {planned} seeds, by --seeds"


def _absent(work: Workspace, need: Need) -> Iterable[str]:
    seeds = work.level.seeds_of(need.setting, need.seeds)
    group = work.comparison(need).name
    unfinished: dict[tuple[int, ...], list[str]] = {}
    for strategy in work.strategies(need):
        absent = tuple(s for s in seeds if work.find(need, strategy, s) is None)
        known = work.problem_of(group, strategy)
        if absent and known:
            yield known
        elif absent:
            unfinished.setdefault(absent, []).append(strategy)
    for absent, names in unfinished.items():
        which = f"{'seed' if len(absent) == 1 else 'seeds'} {', '.join(map(str, absent))}"
        lack = " with all weights" if need.weights else ""
        yield f"{group}: no complete run{lack} of {', '.join(names)} for {which}"


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
