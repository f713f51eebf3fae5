"""Progress of the work, with the learning curve as a drawing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Form, Query
from fastapi.responses import HTMLResponse, Response
from markupsafe import Markup

from steepest.labelling.project.statistics import CurvePoint
from steepest.labelling.web.filters import percent
from steepest.labelling.web.page_context import Annotator, Here, PageContext

WIDTH, HEIGHT = 340, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 12, 12, 34


@dataclass(frozen=True)
class _Frame:
    """Maps numbers to positions on the drawing."""

    most_labels: int
    lowest: float
    highest: float

    def x(self, labels: float) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * labels / self.most_labels

    def y(self, accuracy: float) -> float:
        share = (accuracy - self.lowest) / (self.highest - self.lowest)
        return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * share


def draw_curve(points: Sequence[CurvePoint], target: float | None = None) -> Markup:
    """Draw accuracy over labels, with its interval.

    Args:
        points: The models; those without a test are left out.
        target: An accuracy to draw a line at.

    Returns:
        An SVG element; nothing if there is nothing to draw.
    """
    known = sorted((p for p in points if p.accuracy is not None), key=lambda p: p.labels)
    if not known:
        return Markup()
    frame = _frame(known, target)
    parts = [_grid(frame), _band(frame, known)]
    if target is not None:
        parts.append(_level(frame, target))
    line = " ".join(f"{frame.x(p.labels):.1f},{frame.y(p.accuracy or 0):.1f}" for p in known)
    parts.append(Markup('<polyline class="curve-line" points="{}"/>').format(line))
    parts += [_dot(frame, p) for p in known]
    last = known[-1]
    words = (
        f"Learning curve: model {last.version} is right on {percent(last.accuracy)} of "
        f"{last.validation} test images, with {last.labels} labels"
    )
    return Markup(
        '<svg class="curve" role="img" viewBox="0 0 {} {}" aria-label="{}">{}</svg>'
    ).format(WIDTH, HEIGHT, words, Markup().join(parts))


def _frame(points: Sequence[CurvePoint], target: float | None) -> _Frame:
    lows = [p.low or 0.0 for p in points] + ([target] if target is not None else [])
    highs = [p.high or 0.0 for p in points] + ([target] if target is not None else [])
    lowest = math.floor(10 * min(lows)) / 10
    highest = min(1.0, math.ceil(10 * max(highs)) / 10)
    if highest - lowest < 0.2:
        lowest = max(0.0, highest - 0.2)
    return _Frame(_round_up(max(p.labels for p in points)), lowest, highest)


def _round_up(value: int) -> int:
    """Return a round number that is not below a value."""
    size = 10 ** max(0, int(math.log10(max(1, value))))
    return next(int(size * f) for f in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if size * f >= value)


def _grid(frame: _Frame) -> Markup:
    parts = []
    steps = round((frame.highest - frame.lowest) * 10)
    every = 1 if steps <= 5 else 2
    for step in range(0, steps + 1, every):
        accuracy = frame.lowest + step / 10
        y = frame.y(accuracy)
        parts.append(
            Markup(
                '<line class="curve-grid" x1="{0}" x2="{1}" y1="{2:.1f}" y2="{2:.1f}"/>'
                '<text class="curve-text" x="{3}" y="{4:.1f}" text-anchor="end">{5}</text>'
            ).format(_LEFT, WIDTH - _RIGHT, y, _LEFT - 6, y + 4, percent(accuracy))
        )
    for labels in (0, frame.most_labels // 2, frame.most_labels):
        anchor = "end" if labels == frame.most_labels else "middle"
        parts.append(
            Markup('<text class="curve-text" x="{:.1f}" y="{}" text-anchor="{}">{}</text>').format(
                frame.x(labels), HEIGHT - _BOTTOM + 15, anchor, labels
            )
        )
    caption = Markup('<text class="curve-text" x="{}" y="{}" text-anchor="middle">labels</text>')
    parts.append(caption.format((WIDTH + _LEFT - _RIGHT) / 2, HEIGHT - 4))
    return Markup().join(parts)


def _band(frame: _Frame, points: Sequence[CurvePoint]) -> Markup:
    if len(points) == 1:
        return Markup()
    upper = [(frame.x(p.labels), frame.y(p.high or 0.0)) for p in points]
    lower = [(frame.x(p.labels), frame.y(p.low or 0.0)) for p in reversed(points)]
    around = " ".join(f"{x:.1f},{y:.1f}" for x, y in (*upper, *lower))
    return Markup('<polygon class="curve-band" points="{}"/>').format(around)


def _level(frame: _Frame, target: float) -> Markup:
    return Markup(
        '<line class="curve-target" x1="{0}" x2="{1}" y1="{2:.1f}" y2="{2:.1f}"/>'
    ).format(_LEFT, WIDTH - _RIGHT, frame.y(target))


def _dot(frame: _Frame, point: CurvePoint) -> Markup:
    said = (
        f"model {point.version}: {point.correct} of {point.validation} right, "
        f"{point.labels} labels, 95 % interval {percent(point.low)} to {percent(point.high)}"
    )
    x, y = frame.x(point.labels), frame.y(point.accuracy or 0.0)
    return Markup(
        '<g><title>{0}</title><line class="curve-whisker" x1="{1:.1f}" x2="{1:.1f}" '
        'y1="{2:.1f}" y2="{3:.1f}"/>'
        '<circle class="curve-dot" cx="{1:.1f}" cy="{4:.1f}" r="3.5"/></g>'
    ).format(said, x, frame.y(point.low or 0.0), frame.y(point.high or 0.0), y)


router = APIRouter()

TARGET_PERCENT = 90.0
_CHECKING_MODELS = 3
Target = Annotated[float, Query(gt=0, lt=100)]


def panel_values(context: PageContext, target_percent: float = TARGET_PERCENT) -> dict[str, object]:
    """Return the summary shown next to the image."""
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
