"""Lists to look through: doubtful labels, the history, all images. Never all at once."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Form, Query
from fastapi.responses import HTMLResponse, Response

from steepest.labelling.project.history import State
from steepest.labelling.web.page_context import Annotator, Browser, Here

router = APIRouter()

PAGE = 48
Before = Annotated[int | None, Query(ge=0, lt=1 << 63)]
"""A number of an answer, as the store can hold it."""


@router.get("/review")
def review(context: Here, who: Annotator) -> HTMLResponse:
    """Show labels to look at again: of changed files, doubted ones, and where people are split."""
    queue, figure = context.project.queue, context.figures.look(exact=True)
    values = {
        "page": "review",
        "suspicious": figure.suspicious,
        "counts": figure.counts,
        "changed": queue.samples(state="changed", limit=PAGE),
        "mark": context.project.changed_mark(),
        "differing": queue.samples(state="differing", limit=PAGE),
        "disputed": queue.samples(state="disputed", limit=PAGE),
        "work": context.figures.work(),
    }
    return context.show("review.html", values, who=who)


@router.post("/changed")
def settle_changed(
    context: Here,
    who: Annotator,
    browser: Browser,
    then: Annotated[Literal["ask", "keep"], Form()],
    mark: Annotated[str, Form(max_length=200)],
) -> Response:
    """Ask again about files that changed since they were labelled, or keep their labels.

    Only those that were shown are decided about: others may have changed meanwhile.
    """
    if then == "ask":
        context.project.ask_again(mark=mark, by=who)
        # What is held here would be shown before them.
        context.project.queue.release(who, browser)
    else:
        context.project.keep_labels(mark=mark, by=who)
    return Response(status_code=204, headers={"HX-Redirect": "/" if then == "ask" else "/review"})


@router.get("/history")
def history(
    context: Here,
    who: Annotator,
    before: Before = None,
    *,
    everybody: bool = False,
) -> HTMLResponse:
    """Show the answers, newest first."""
    answers = context.project.queue.history(
        None if everybody else who, limit=PAGE + 1, before=before
    )
    values = {
        "page": "history",
        "answers": answers[:PAGE],
        "older": answers[PAGE - 1].number if len(answers) > PAGE else None,
        "everybody": everybody,
        "decisions": context.project.decisions() if everybody and before is None else [],
    }
    return context.show("history.html", values, who=who)


@router.get("/images")
def images(
    context: Here,
    who: Annotator,
    state: State | Literal[""] = "",
    label: Annotated[str, Query(max_length=200)] = "",
    start: Annotated[int, Query(ge=0, le=1 << 40)] = 0,
) -> HTMLResponse:
    """Show the images of a state or a class, a page at a time."""
    found = context.project.queue.samples(
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
    return context.show("images.html", values, who=who)
