"""Progress: a summary next to the image, and a separate page."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Query
from fastapi.responses import HTMLResponse, Response

from steepest.labelling.web.curve import draw_curve
from steepest.labelling.web.page_context import Annotator, Here, PageContext

router = APIRouter()

TARGET_PERCENT = 90.0
_CHECKING_MODELS = 3
Target = Annotated[float, Query(gt=0, lt=100)]


def panel_values(context: PageContext, target_percent: float = TARGET_PERCENT) -> dict[str, object]:
    """Return what is said beside the image."""
    target = target_percent / 100
    figure = context.figures.look()
    return {
        "figure": figure,
        "work": context.figures.work(),
        "curve": draw_curve(figure.curve, target),
        "forecast": context.figures.forecast(target),
        "target": target_percent,
        "most": max(figure.balance.values(), default=0),
    }


@router.get("/panel")
def panel(context: Here, who: Annotator, target: Target = TARGET_PERCENT) -> HTMLResponse:
    """Show the figures beside the image."""
    return context.show("panel.html", panel_values(context, target), who=who)


@router.get("/progress")
def progress(context: Here, who: Annotator, target: Target = TARGET_PERCENT) -> HTMLResponse:
    """Show all figures."""
    values = {"page": "progress", **panel_values(context, target)}
    return context.show("progress.html", values, who=who)


@router.get("/figures")
def figures(context: Here, who: Annotator, target: Target = TARGET_PERCENT) -> HTMLResponse:
    """Show all figures, as a part of a page."""
    return context.show("figures.html", panel_values(context, target), who=who)


@router.post("/train")
def train(context: Here, who: Annotator, *, check: Annotated[bool, Form()] = False) -> Response:
    """Ask for a training, or for one that also looks at every label."""
    context.project.trainer.request(f"asked for by {who}", folds=_CHECKING_MODELS if check else 0)
    return Response(status_code=204, headers={"HX-Trigger": "answered"})
