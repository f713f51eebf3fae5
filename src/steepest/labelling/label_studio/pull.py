"""Fetch people's annotations; fetching again changes nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from steepest.core.seeds import SampleId
from steepest.labelling.exchange.answers import plan, withdraw
from steepest.labelling.exchange.folder import SERVER, LoopFolder
from steepest.labelling.exchange.ingest import Ingested, check_known, settle, write_label_table
from steepest.labelling.label_studio.annotations import Read, Rules, read_tasks
from steepest.labelling.label_studio.project import Project
from steepest.pool import Pool, State
from steepest.pool.values import Label


@dataclass
class Reading:
    """State of importing annotations from one pull to the next.

    Attributes:
        relabel: Whether labels that did not come from Label Studio may be replaced.
        background: The class of unpainted pixels.
        disagreement: ``"refuse"`` or ``"majority"``, where annotators differ.
        drawn: Masks that were drawn before.
    """

    relabel: bool = False
    background: str | None = None
    disagreement: str = "refuse"
    drawn: dict[tuple[Any, ...], Label] = field(default_factory=dict, repr=False)


def pull(folder: LoopFolder, project: Project, reading: Reading) -> Ingested:
    """Update the pool from the project: new, edited, skipped and deleted annotations.

    A label that came from Label Studio follows its annotation. What came from elsewhere is
    replaced only if that is allowed.

    Raises:
        InputError: If annotations disagree or cannot be read; the pool is then as before.
        PoolError: If they contradict labels from elsewhere; the pool is then as before.
        JournalError: If the pool has lost labels that are in the loop's table.
    """
    tasks = project.export()
    with folder.open_pool() as pool, pool.transaction():
        rules = Rules(folder, pool, reading.background, reading.disagreement, reading.drawn)
        read = read_tasks(tasks, rules, f"project {project.title!r}")
        ours = _from_here(pool)
        changes = plan(
            pool,
            read.answers,
            who=f"{SERVER}unknown",
            may_change=lambda sample: reading.relabel or sample in ours,
            say=folder.say,
        )
        check_known(folder, pool, read.answers)
        changes += withdraw(_taken_back(pool, read, ours), f"{SERVER}deleted")
        done = settle(folder, pool, read.answers, changes)
    write_label_table(folder)
    return done


def _from_here(pool: Pool) -> set[SampleId]:
    """Return the samples whose last change came from Label Studio, in one pass over the past."""
    last = {event.id: event.who for event in pool.events()}
    return {sample for sample, who in last.items() if who.startswith(SERVER)}


def _taken_back(pool: Pool, read: Read, ours: set[SampleId]) -> list[SampleId]:
    """Return samples whose annotation was deleted while their task is still there."""
    answered = {answer.id for answer in read.answers}
    return [
        sample
        for state in (State.LABELLED, State.SKIPPED)
        for sample in pool.ids(state)
        if sample in read.asked and sample not in answered and sample in ours
    ]
