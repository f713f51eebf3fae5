"""Predictions of the model: as files, and accepted together by somebody who looks at them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Query
from fastapi.responses import HTMLResponse, Response

from steepest.errors import InputError
from steepest.labelling.project.accepting import LOWEST
from steepest.labelling.project.predictions import (
    find_model,
    list_everything,
    predictions_text,
)
from steepest.labelling.project.statistics import binomial_interval
from steepest.labelling.web.page_context import Annotator, Here

router = APIRouter()

PAGE = 60
"""Images on a page: as many as somebody really looks at."""

_MOST_ACCEPTED = 2 * PAGE
_USUAL_PERCENT = 99.0
_ENOUGH = 30
"""So many random draws say something about how often such predictions are right."""

Percent = Annotated[float, Query(ge=100 * LOWEST, lt=100)]


@router.get("/accept")
def accept_page(context: Here, who: Annotator, above: Percent = _USUAL_PERCENT) -> HTMLResponse:
    """Show predictions that are sure enough, a page at a time."""
    version, rows = context.project.accepting.candidates(above / 100)
    checked, right = context.project.accepting.check(above / 100)
    values = {
        "checked": checked,
        "right": right,
        "interval": binomial_interval(right, checked)[1:],
        "enough": checked >= _ENOUGH,
        "page": "accept",
        "above": above,
        "lowest": 100 * LOWEST,
        "version": version,
        "rows": rows[:PAGE],
        "count": len(rows),
        "latest": context.project.accepting.latest(),
        "work": context.figures.work(),
    }
    return context.show("accept.html", values, who=who)


@router.post("/accept")
def accept(
    context: Here,
    who: Annotator,
    version: Annotated[int, Form(ge=0, lt=1 << 63)],
    above: Annotated[float, Form(ge=100 * LOWEST, lt=100)],
    sample: Annotated[list[str], Form(default_factory=list, max_length=_MOST_ACCEPTED)],
) -> Response:
    """Take the predictions that were shown and left ticked as answers of this person."""
    if not sample:
        raise InputError("nothing is ticked")
    context.project.accepting.accept(who, sample, version, above / 100)
    return Response(status_code=204, headers={"HX-Redirect": f"/accept?above={above:g}"})


@router.post("/accept/undo")
def undo(context: Here, who: Annotator, number: Annotated[int, Form(ge=0, lt=1 << 63)]) -> Response:
    """Undo this person's accepted predictions."""
    context.project.accepting.undo(who, number)
    return Response(status_code=204, headers={"HX-Redirect": "/accept"})


@router.get("/export/predictions.{kind}")
def export_predictions(context: Here, who: Annotator, kind: str) -> Response:
    """Export the labels, and the model's predictions for all other images."""
    del who
    if kind not in ("csv", "jsonl"):
        raise InputError("predictions are exported as csv or jsonl")
    rows = list_everything(context.project.store, context.project.settings)
    headers = {"content-disposition": f'attachment; filename="predictions.{kind}"'}
    media_type = "text/csv" if kind == "csv" else "application/jsonl"
    text = predictions_text(rows, kind)
    return Response(text.encode(), media_type=media_type, headers=headers)


@router.get("/export/model")
def export_model(context: Here, who: Annotator) -> Response:
    """Export the latest model: its weights with classes and preprocessing, in one file."""
    del who
    found = find_model(context.project.store)
    if found is None:
        raise InputError("there is no model yet")
    version, path = found
    headers = {"content-disposition": f'attachment; filename="model-{version:04d}.safetensors"'}
    return Response(path.read_bytes(), media_type="application/octet-stream", headers=headers)
