"""Pages about people, classes and hints."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form
from fastapi.responses import Response

from steepest.labelling.web.gate import YEAR_SECONDS
from steepest.labelling.web.page_context import Annotator, Browser, Here, Visitor, keep_name

router = APIRouter()


@router.post("/name")
def name(
    context: Here, before: Visitor, browser: Browser, name: Annotated[str, Form(max_length=200)]
) -> Response:
    """Remember who labels in this browser; what was held under another name is given back."""
    name = context.project.queue.find_annotator(name.strip())
    if before is not None and before != name:
        context.project.queue.release(before, browser)
    answer = Response(status_code=204, headers={"HX-Redirect": "/"})
    answer.set_cookie(
        context.cookie, keep_name(name), max_age=YEAR_SECONDS, httponly=True, samesite="strict"
    )
    return answer


@router.post("/classes")
def add_class(
    context: Here, who: Annotator, name: Annotated[str, Form(max_length=200)]
) -> Response:
    """Add a class."""
    context.project.add_class(name.strip(), by=who)
    return Response(status_code=204, headers={"HX-Redirect": "/files"})


@router.post("/rename")
def rename_class(
    context: Here,
    who: Annotator,
    old: Annotated[str, Form(max_length=200)],
    new: Annotated[str, Form(max_length=200)],
) -> Response:
    """Call a class otherwise."""
    context.project.rename_class(old, new.strip(), by=who)
    return Response(status_code=204, headers={"HX-Redirect": "/files"})


@router.post("/hints")
def hints(context: Here, who: Annotator, *, shown: Annotated[bool, Form()] = False) -> Response:
    """Decide whether people see what the model thinks before they answer."""
    del who
    context.project.change_settings(hints=shown)
    return Response(status_code=204, headers={"HX-Redirect": "/files"})
