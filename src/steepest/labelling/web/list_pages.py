"""Lists to look through: doubtful labels, the history, all images. Never all at once."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Form, Query
from fastapi.responses import HTMLResponse, Response

from steepest.labelling.project.history import State
from steepest.labelling.web.room import Annotator, Browser, Here

router = APIRouter()

PAGE = 48
Before = Annotated[int | None, Query(ge=0, lt=1 << 63)]
"""A number of an answer, as the store can hold it."""


@router.get("/review")
def review(room: Here, who: Annotator) -> HTMLResponse:
    """Show labels to look at again: of changed files, doubted ones, and where people are split."""
    queue, figure = room.project.queue, room.figures.look(exact=True)
    values = {
        "page": "review",
        "suspicious": figure.suspicious,
        "counts": figure.counts,
        "changed": queue.samples(state="changed", limit=PAGE),
        "mark": room.project.changed_mark(),
        "differing": queue.samples(state="differing", limit=PAGE),
        "disputed": queue.samples(state="disputed", limit=PAGE),
        "work": room.figures.work(),
    }
    return room.show("review.html", values, who=who)


@router.post("/changed")
def settle_changed(
    room: Here,
    who: Annotator,
    browser: Browser,
    then: Annotated[Literal["ask", "keep"], Form()],
    mark: Annotated[str, Form(max_length=200)],
) -> Response:
    """Ask again about files that changed since they were labelled, or keep their labels.

    Only those that were shown are decided about: others may have changed meanwhile.
    """
    if then == "ask":
        room.project.ask_again(mark=mark, by=who)
        # What is held here would be shown before them.
        room.project.queue.release(who, browser)
    else:
        room.project.keep_labels(mark=mark, by=who)
    return Response(status_code=204, headers={"HX-Redirect": "/" if then == "ask" else "/review"})


@router.get("/history")
def history(
    room: Here,
    who: Annotator,
    before: Before = None,
    *,
    everybody: bool = False,
) -> HTMLResponse:
    """Show what was answered, newest first."""
    answers = room.project.queue.history(None if everybody else who, limit=PAGE + 1, before=before)
    values = {
        "page": "history",
        "answers": answers[:PAGE],
        "older": answers[PAGE - 1].number if len(answers) > PAGE else None,
        "everybody": everybody,
        "decisions": room.project.decisions() if everybody and before is None else [],
    }
    return room.show("history.html", values, who=who)


@router.get("/images")
def images(
    room: Here,
    who: Annotator,
    state: State | Literal[""] = "",
    label: Annotated[str, Query(max_length=200)] = "",
    start: Annotated[int, Query(ge=0, le=1 << 40)] = 0,
) -> HTMLResponse:
    """Show the images of a state or a class, a page at a time."""
    found = room.project.queue.samples(
        state=state or None, label=label or None, limit=PAGE + 1, offset=start
    )
    values = {
        "page": "images",
        "samples": found[:PAGE],
        "state": state,
        "label": label,
        "start": start,
        "size": PAGE,
        "more": len(found) > PAGE,
    }
    return room.show("images.html", values, who=who)
