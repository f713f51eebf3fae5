"""One image after the other, or many side by side: pages on which people answer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Form, Query
from fastapi.responses import HTMLResponse, JSONResponse, Response

from steepest.errors import DataError, InputError
from steepest.labelling.project import Answer, Pick, Prediction, Task
from steepest.labelling.project.batches import VALIDATION
from steepest.labelling.web.filters import AGAIN
from steepest.labelling.web.list_pages import Before
from steepest.labelling.web.page_context import (
    Annotator,
    Browser,
    Here,
    PageContext,
    Visitor,
    show_after_saving,
)
from steepest.labelling.web.progress_pages import panel_values

router = APIRouter()

AHEAD = 2
"""How many images one person holds: the one that is shown, and the one that comes next."""
GRID = 12
_GRID_SHARE = 0.2
"""Of the time for which images are kept: a grid that nobody looks at holds many of them."""
MOST_HELD = 100
"""How many images a grid may name at once."""
_MOST_UNREADABLE = 20
"""Attempts to find texts that can be read before a page is shown."""
_LISTS = {"review": "/review", "history": "/history", "images": "/images"}
Sample = Annotated[str, Form(max_length=4096)]
View = Annotated[Literal["one", "grid", "review", "history", "images"], Form()]
Shown = Annotated[str, Form(max_length=100)]
"""What tells the file that a page showed from a later one of its name."""


@dataclass(frozen=True)
class Why:
    """The reason a sample was picked.

    Attributes:
        strategy: The method that picked it; None if nothing did.
        rank: Its place among the picks.
        score: Its score by the strategy.
        version: The model that was asked.
        predictions: The model's predictions, most likely first.
    """

    strategy: str | None = None
    rank: int | None = None
    score: float | None = None
    version: int | None = None
    predictions: tuple[Prediction, ...] = ()


@router.get("/")
def desk(context: Here, who: Visitor, browser: Browser) -> HTMLResponse:
    """Show one image, or ask for a name."""
    if who is None:
        return context.show("name.html", {"page": "name"})
    values = {"page": "one", **_next_values(context, who, browser), **panel_values(context)}
    return context.show("desk.html", values, who=who)


@router.get("/task")
def task(context: Here, who: Annotator, browser: Browser) -> HTMLResponse:
    """Show the image that waits for this person."""
    return context.show("task_part.html", _next_values(context, who, browser), who=who)


@router.get("/grid")
def grid(context: Here, who: Annotator, browser: Browser) -> HTMLResponse:
    """Show many images side by side."""
    tasks, away = _look_ahead(context, who, browser, GRID, _grid_seconds(context))
    cells = [{"sample": t.sample, "why": why_of_task(context, t), "labels": None} for t in tasks]
    values = {
        "page": "grid",
        "cells": cells,
        "away": away,
        "kept_seconds": _grid_seconds(context),
        "counts": context.project.progress(),
        "holders": _others(context, who),
    }
    return context.show("grid.html", values, who=who)


@router.post("/hold")
def hold(
    context: Here,
    who: Annotator,
    browser: Browser,
    sample: Annotated[list[str], Form(default_factory=list, max_length=MOST_HELD)],
) -> JSONResponse:
    """Keep the images of a grid in which somebody moves, and name those that others have by now."""
    seconds = _grid_seconds(context)
    return JSONResponse(context.project.queue.renew(who, sample, browser, seconds=seconds))


def _grid_seconds(context: PageContext) -> float:
    return _GRID_SHARE * context.project.settings.lease_seconds


def _others(context: PageContext, who: str) -> dict[str, int]:
    """Return who else holds images, and how many."""
    return {name: held for name, held in context.project.queue.holders().items() if name != who}


@router.get("/again")
def again(
    context: Here,
    who: Annotator,
    before: Before = None,
) -> HTMLResponse:
    """Show the answer that this person gave before."""
    found = context.project.queue.history(who, limit=1, before=before)
    if not found:
        raise InputError("there is no earlier answer of yours")
    values = {**again_values(context, who, found[0].sample, "one"), "before": found[0].number}
    return context.show("task_part.html", values, who=who)


@router.get("/sample")
def sample(
    context: Here,
    who: Annotator,
    sample: Annotated[str, Query(max_length=4096)],
    view: Literal["review", "history", "images"] = "history",
) -> HTMLResponse:
    """Show one sample, to label it or label it again."""
    values = {"page": view, **again_values(context, who, sample, view), **panel_values(context)}
    return context.show("desk.html", values, who=who)


@router.post("/answer")
def answer(
    context: Here,
    who: Annotator,
    browser: Browser,
    sample: Sample,
    label: Annotated[list[str], Form(default_factory=list)],
    view: View = "one",
    shown: Shown = "",
) -> Response:
    """Take an answer; it is on disk before anything is said about it."""
    try:
        given = context.project.queue.answer(who, sample, label, browser, shown or None)
    except InputError as error:
        return _show_replaced(context, who, browser, (sample, shown), view, error)
    return _go_on(context, who, browser, given, view)


@router.post("/skip")
def skip(
    context: Here,
    who: Annotator,
    browser: Browser,
    sample: Sample,
    view: View = "one",
    shown: Shown = "",
) -> Response:
    """Take a refusal."""
    try:
        given = context.project.queue.skip(who, sample, browser, shown or None)
    except InputError as error:
        return _show_replaced(context, who, browser, (sample, shown), view, error)
    return _go_on(context, who, browser, given, view)


@router.post("/undo")
def undo(context: Here, who: Annotator, browser: Browser, view: View = "one") -> Response:
    """Take back this person's last answer in this browser, and show the sample again."""
    taken = context.project.queue.undo(who, browser)
    if taken is None:
        raise InputError(
            "nothing that you answered in this browser is left to take back; b goes back to all "
            "your answers"
        )
    if view != "one":
        return Response(status_code=204, headers={"HX-Redirect": _LISTS.get(view, "/grid")})
    notice = f"Taken back: {taken.sample}"

    def show() -> Response:
        values = _one_values(context, who, browser, taken.sample, notice)
        return context.show("task_part.html", values, who=who, events={"answered": True})

    return show_after_saving(show, notice, "it cannot be shown", view=view)


def _one_values(
    context: PageContext, who: str, browser: str, sample: str, notice: str
) -> dict[str, object]:
    """Return what is said about a sample that is given out next, or on purpose if answered."""
    if context.project.queue.answer_of(who, sample) is None:
        return _next_values(context, who, browser, notice=notice)
    return {**again_values(context, who, sample, "one"), "notice": notice}


def _show_replaced(
    context: PageContext,
    who: str,
    browser: str,
    seen: tuple[str, str],
    view: str,
    error: InputError,
) -> Response:
    """Show the file that was put in the place of the one that was shown and answered.

    Raises:
        InputError: If that is not what was wrong.
    """
    sample, shown = seen
    if not shown or context.mark(sample) in ("", shown):
        raise error
    if view == "grid":
        return Response(status_code=204, headers={"HX-Redirect": "/grid"})
    notice = f"Not saved: {error}"
    if view == "one":
        values = _one_values(context, who, browser, sample, notice)
    else:
        values = {**again_values(context, who, sample, view), "notice": notice}
    page = context.show("task_part.html", values, who=who)
    page.headers["HX-Trigger-After-Settle"] = json.dumps({"refused": notice})
    return page


def _go_on(context: PageContext, who: str, browser: str, given: Answer, view: str) -> Response:
    """Show what follows an answer that is on disk; no error may look as if it were not."""
    if view in _LISTS:
        return Response(status_code=204, headers={"HX-Redirect": _LISTS[view]})

    def show() -> Response:
        if view == "grid":
            why = why_of_answer(context, given)
            cell = {"sample": given.sample, "why": why, "labels": given.labels, "answer": given}
            return context.show("cell.html", {"cell": cell}, who=who, events={"answered": True})
        values = _next_values(context, who, browser, last=given)
        return context.show("task_part.html", values, who=who, events={"answered": True})

    saved, failing = f"Saved: {given.sample}", f"the next {context.noun} cannot be shown"
    return show_after_saving(show, saved, failing, view=view)


def _look_ahead(
    context: PageContext, who: str, browser: str, count: int, seconds: float | None = None
) -> tuple[list[Task], bool]:
    """Return the next sample, and whether the whole folder is unavailable."""
    queue, pictures = context.project.queue, context.project.pictures
    for _ in range(_MOST_UNREADABLE):
        tasks = queue.next(who, count, browser, seconds=seconds)
        away = bool(tasks) and pictures.is_away(tasks[0].sample)
        if away or context.project.source.kind == "images" or _are_readable(context, tasks):
            break
    return ([] if away else tasks), away


def _are_readable(context: PageContext, tasks: list[Task]) -> bool:
    """Look at texts before they are shown: those that cannot be read are not given out again."""
    readable = True
    for task in tasks:
        try:
            context.project.pictures.text(task.sample)
        except DataError:
            readable = False
    return readable


def _next_values(
    context: PageContext, who: str, browser: str, *, last: Answer | None = None, notice: str = ""
) -> dict[str, object]:
    """Return what is said about the sample that comes next."""
    tasks, away = _look_ahead(context, who, browser, AHEAD)
    values: dict[str, object] = {
        "view": "one",
        "task": tasks[0].sample if tasks else None,
        "why": why_of_task(context, tasks[0]) if tasks else Why(),
        "ahead": [task.sample for task in tasks[1:]],
        "labels": None,
        "copy_of": None,
        "copies_differ": False,
        "said": None,
        "before": None,
        "last": last,
        "last_why": why_of_answer(context, last) if last else Why(),
        "notice": notice,
    }
    if not tasks:
        values |= {
            "counts": context.project.progress(),
            "away": away,
            "holders": _others(context, who),
        }
    return values


def again_values(context: PageContext, who: str, sample: str, view: str) -> dict[str, object]:
    """Return what is said about a sample that may have been answered before.

    Raises:
        InputError: If there is no such sample.
    """
    queue = context.project.queue
    own = queue.answer_of(who, sample)
    said = queue.history(sample=sample, limit=20)
    known = own or next(iter(said), None)
    resolved = queue.label_of(sample)
    return {
        "view": view,
        "task": sample,
        "why": why_of_answer(context, known) if known else Why(),
        "ahead": [],
        "labels": own.labels if own else resolved.labels,
        "copy_of": resolved.copy_of,
        "copies_differ": resolved.disputed,
        "said": said,
        "decided": context.project.decisions(sample, limit=1),
        "before": own.number if own else None,
        "last": None,
        "last_why": Why(),
        "notice": "",
    }


def why_of_task(context: PageContext, task: Task) -> Why:
    """Return why a sample was given out.

    What the model thinks of an image that it is tested on is not said before the answer: people
    tend to agree with what they read, and the test would be better than the model. Of others it is
    said once predictions that were as sure have come true often enough.
    """
    strategy = task.strategy or (AGAIN if task.again else None)
    told = () if strategy == VALIDATION else task.predictions
    if told and context.project.settings.hints:
        earned = context.figures.hint_certainty()
        told = told if earned is not None and _certainty(context, told) >= earned else ()
    return Why(strategy, task.rank, task.score, task.version, told)


def _certainty(context: PageContext, told: tuple[Prediction, ...]) -> float:
    """Return how sure a model is of its answer: with several classes, of each decision."""
    if context.project.settings.multi_label:
        return min(max(p.probability, 1 - p.probability) for p in told)
    return told[0].probability


def why_of_answer(context: PageContext, given: Answer) -> Why:
    """Return why the sample of an answer had been given out."""
    if given.batch is None:
        return Why()
    pick: Pick | None = next(
        (p for p in context.project.picks(given.batch) if p.sample == given.sample), None
    )
    if pick is None:
        return Why()
    return Why(pick.strategy, pick.rank, pick.score, given.version, pick.predictions)
