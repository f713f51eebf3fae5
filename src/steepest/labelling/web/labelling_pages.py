"""One image after the other, or many side by side: pages on which people answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Form, Query
from fastapi.responses import HTMLResponse, Response

from steepest.errors import InputError
from steepest.labelling.project import Answer, Pick, Prediction, Task
from steepest.labelling.web.kept import show_after_saving
from steepest.labelling.web.list_pages import Before
from steepest.labelling.web.progress_pages import panel_values
from steepest.labelling.web.room import Annotator, Browser, Here, Room, Visitor

router = APIRouter()

AHEAD = 2
"""How many images one person holds: the one that is shown, and the one that comes next."""
GRID = 12
_LISTS = {"review": "/review", "history": "/history", "images": "/images"}
Sample = Annotated[str, Form(max_length=4096)]
View = Annotated[Literal["one", "grid", "review", "history", "images"], Form()]


@dataclass(frozen=True)
class Why:
    """Why a sample was picked.

    Attributes:
        strategy: What picked it; None if nothing did.
        rank: Its place among the picks.
        score: What the strategy gave it.
        version: The model that was asked.
        predictions: What that model thinks, most likely first.
    """

    strategy: str | None = None
    rank: int | None = None
    score: float | None = None
    version: int | None = None
    predictions: tuple[Prediction, ...] = ()


@router.get("/")
def desk(room: Here, who: Visitor, browser: Browser) -> HTMLResponse:
    """Show one image, or ask for a name."""
    if who is None:
        return room.show("name.html", {"page": "name"})
    values = {"page": "one", **_next_values(room, who, browser), **panel_values(room)}
    return room.show("desk.html", values, who=who)


@router.get("/task")
def task(room: Here, who: Annotator, browser: Browser) -> HTMLResponse:
    """Show the image that waits for this person."""
    return room.show("task_part.html", _next_values(room, who, browser), who=who)


@router.get("/grid")
def grid(room: Here, who: Annotator, browser: Browser) -> HTMLResponse:
    """Show many images side by side."""
    tasks, away = _look_ahead(room, who, browser, GRID)
    cells = [{"sample": t.sample, "why": why_of_task(t), "labels": None} for t in tasks]
    values = {"page": "grid", "cells": cells, "away": away, "counts": room.project.progress()}
    return room.show("grid.html", values, who=who)


@router.get("/again")
def again(
    room: Here,
    who: Annotator,
    before: Before = None,
) -> HTMLResponse:
    """Show the answer that this person gave before."""
    found = room.project.queue.history(who, limit=1, before=before)
    if not found:
        raise InputError("there is no earlier answer of yours")
    values = {**again_values(room, who, found[0].sample, "one"), "before": found[0].number}
    return room.show("task_part.html", values, who=who)


@router.get("/sample")
def sample(
    room: Here,
    who: Annotator,
    sample: Annotated[str, Query(max_length=4096)],
    view: Literal["review", "history", "images"] = "history",
) -> HTMLResponse:
    """Show one sample, to label it or label it anew."""
    values = {"page": view, **again_values(room, who, sample, view), **panel_values(room)}
    return room.show("desk.html", values, who=who)


@router.post("/answer")
def answer(
    room: Here,
    who: Annotator,
    browser: Browser,
    sample: Sample,
    label: Annotated[list[str], Form(default_factory=list)],
    view: View = "one",
) -> Response:
    """Take an answer; it is on disk before anything is said about it."""
    given = room.project.queue.answer(who, sample, label, browser)
    return _go_on(room, who, browser, given, view)


@router.post("/skip")
def skip(
    room: Here, who: Annotator, browser: Browser, sample: Sample, view: View = "one"
) -> Response:
    """Take a refusal."""
    return _go_on(room, who, browser, room.project.queue.skip(who, sample, browser), view)


@router.post("/undo")
def undo(room: Here, who: Annotator, browser: Browser, view: View = "one") -> Response:
    """Take back this person's last answer in this browser, and show the sample again."""
    taken = room.project.queue.undo(who, browser)
    if taken is None:
        raise InputError(
            "nothing that you answered in this browser is left to take back; b goes back to all "
            "your answers"
        )
    if view != "one":
        return Response(status_code=204, headers={"HX-Redirect": _LISTS.get(view, "/grid")})
    notice = f"Taken back: {taken.sample}"

    def show() -> Response:
        values = _next_values(room, who, browser, notice=notice)
        # An undone relabel leaves the sample answered: it is not the next one, so show it on
        # purpose.
        if room.project.queue.answer_of(who, taken.sample) is not None:
            values = {**again_values(room, who, taken.sample, "one"), "notice": notice}
        return room.show("task_part.html", values, who=who, events={"answered": True})

    return show_after_saving(show, notice, "it cannot be shown", view=view)


def _go_on(room: Room, who: str, browser: str, given: Answer, view: str) -> Response:
    """Show what follows an answer that is on disk; no error may look as if it were not."""
    if view in _LISTS:
        return Response(status_code=204, headers={"HX-Redirect": _LISTS[view]})

    def show() -> Response:
        if view == "grid":
            why = why_of_answer(room, given)
            cell = {"sample": given.sample, "why": why, "labels": given.labels, "answer": given}
            return room.show("cell.html", {"cell": cell}, who=who, events={"answered": True})
        values = _next_values(room, who, browser, last=given)
        return room.show("task_part.html", values, who=who, events={"answered": True})

    saved, failing = f"Saved: {given.sample}", "the next image cannot be shown"
    return show_after_saving(show, saved, failing, view=view)


def _look_ahead(room: Room, who: str, browser: str, count: int) -> tuple[list[Task], bool]:
    """Return what comes next, and whether the whole folder is away: then nothing does."""
    tasks = room.project.queue.next(who, count, browser)
    away = bool(tasks) and room.project.pictures.is_away(tasks[0].sample)
    return ([] if away else tasks), away


def _next_values(
    room: Room, who: str, browser: str, *, last: Answer | None = None, notice: str = ""
) -> dict[str, object]:
    """Return what is said about the sample that comes next."""
    tasks, away = _look_ahead(room, who, browser, AHEAD)
    values: dict[str, object] = {
        "view": "one",
        "task": tasks[0].sample if tasks else None,
        "why": why_of_task(tasks[0]) if tasks else Why(),
        "ahead": [task.sample for task in tasks[1:]],
        "labels": None,
        "copy_of": None,
        "copies_differ": False,
        "said": None,
        "before": None,
        "last": last,
        "last_why": why_of_answer(room, last) if last else Why(),
        "notice": notice,
    }
    if not tasks:
        values |= {"counts": room.project.progress(), "away": away}
    return values


def again_values(room: Room, who: str, sample: str, view: str) -> dict[str, object]:
    """Return what is said about a sample that may have been answered before.

    Raises:
        InputError: If there is no such sample.
    """
    queue = room.project.queue
    own = queue.answer_of(who, sample)
    said = queue.history(sample=sample, limit=20)
    known = own or next(iter(said), None)
    resolved = queue.label_of(sample)
    return {
        "view": view,
        "task": sample,
        "why": why_of_answer(room, known) if known else Why(),
        "ahead": [],
        "labels": own.labels if own else resolved.labels,
        "copy_of": resolved.copy_of,
        "copies_differ": resolved.disputed,
        "said": said,
        "before": own.number if own else None,
        "last": None,
        "last_why": Why(),
        "notice": "",
    }


def why_of_task(task: Task) -> Why:
    """Return why a sample was given out."""
    return Why(task.strategy, task.rank, task.score, task.version, task.predictions)


def why_of_answer(room: Room, given: Answer) -> Why:
    """Return why the sample of an answer had been given out."""
    if given.batch is None:
        return Why()
    pick: Pick | None = next(
        (p for p in room.project.picks(given.batch) if p.sample == given.sample), None
    )
    if pick is None:
        return Why()
    return Why(pick.strategy, pick.rank, pick.score, given.version, pick.predictions)
