"""Jinja filters: numbers, moments and decisions in words."""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import Callable, Sequence

from steepest.core.wording import counted
from steepest.labelling.project.batches import VALIDATION
from steepest.labelling.project.history import Decision
from steepest.labelling.project.settings import Settings
from steepest.labelling.web.figures import Work
from steepest.strategies.base import STRATEGIES

AGAIN = "asked again"
"""What stands for a strategy where the file is another one than was answered before."""

_MOST_LETTERS = 36

_STAGES = {
    "looking": "looking at the files",
    "reading": "reading files",
    "train": "training",
    "features": "computing features",
    "": "starting",
}


def percent(share: float | None) -> str:
    """Return a share in whole percent, or a dash if it is not known."""
    return "–" if share is None else f"{100 * share:.0f} %"


def sure(share: float) -> str:
    """Return a share near 100 % in as many digits as it takes to tell it from that."""
    return percent(share) if share < 0.99 else f"{100 * min(share, 0.9999):.2f} %"


def interval(ends: tuple[float | None, float | None]) -> str:
    """Return an interval in whole percent."""
    low, high = ends
    return "–" if low is None or high is None else f"{100 * low:.0f}–{100 * high:.0f} %"


def points(difference: float) -> str:
    """Return a difference of two shares in whole percentage points, with its sign."""
    value = round(100 * difference)
    return f"{value:+d}".replace("-", "−") + (" point" if abs(value) == 1 else " points")


def number(value: float | None) -> str:
    """Return a number with a thin space between thousands."""
    return "–" if value is None else f"{value:,.0f}".replace(",", "\u202f")


def score(value: float | None) -> str:
    """Return a score in four digits."""
    return "–" if value is None else f"{value:.4g}"


def pace(per_minute: float | None) -> str:
    """Return labels per minute."""
    return "–" if per_minute is None else f"{per_minute:.1f}"


def kappa(value: float | None) -> str:
    """Return an agreement beyond chance."""
    return "–" if value is None else f"{value:.2f}"


def names(labels: Sequence[str] | None) -> str:
    """Return labels side by side."""
    if labels is None:
        return "–"
    return ", ".join(labels) if labels else "none of them"


def sentence(text: str) -> str:
    """Return a message as a sentence, with shares written as everywhere on the page."""
    return re.sub(r"(\d)%", r"\1 %", f"{text[:1].upper()}{text[1:]}.")


def ending(name: str) -> str:
    """Return a name, or the end of a long one, where files in one folder differ."""
    return name if len(name) <= _MOST_LETTERS else f"…{name[1 - _MOST_LETTERS :]}"


def ago(moment: float) -> str:
    """Return how long ago a moment was."""
    seconds = max(0.0, time.time() - moment)
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit} ago"
    return "just now"


def strategy(name: str | None) -> str:
    """Return the reason a sample was picked."""
    if name is None:
        return "in random order, until there are new picks"
    if name == AGAIN:
        return "asked again: the file was replaced"
    if name == VALIDATION:
        return "random draw for testing models"
    if name == "spread":
        return "typical sample, before the first model"
    return f"picked by {name}"


def idea(name: str | None) -> str:
    """Return how a strategy picks, in a sentence; nothing if it is not known."""
    if name == "spread":
        return "Typical samples that differ from each other, as there is no model yet."
    if name is None or name not in STRATEGIES.names():
        return ""
    return " ".join((inspect.getdoc(STRATEGIES.get(name)) or "").partition("\n\n")[0].split())


def decision(made: Decision) -> str:
    """Return a description of a decision."""
    who, count = made.annotator or "somebody", made.samples
    if made.kind in ("accept predictions", "undo accepted"):
        done = "accepted" if made.kind == "accept predictions" else "took back"
        return f"{who} {done} {counted(count, 'prediction')}"
    files = made.detail if count == 1 else f"{count} files that had changed, such as {made.detail}"
    return {
        "ask again": f"{who} had people asked again about {files}",
        "keep labels": f"{who} let the labels hold of {files}",
        "add class": f"{who} added the class {made.detail}",
        "rename class": f"{who} renamed a class: {made.detail}",
    }[made.kind]


def waiting(work: Work) -> str:
    """Return the answers that the next training run still needs; nothing while one is running."""
    if work.training.status != "idle":
        return ""
    if work.batch is None:
        return (
            "The first picks are tried again after some more answers." if work.training.last else ""
        )
    left = work.batch.size - work.batch.finished
    if left <= 0:
        return "The next training is about to begin."
    return f"The next training begins after {counted(left, 'more answer')}, whoever gives them."


def way(settings: Settings) -> str:
    """Return a description of the model in training."""
    if settings.way == "probe":
        return f"a linear head on features of {settings.backbone}"
    if settings.way == "fine-tune":
        return f"fine-tuning {settings.weights or settings.backbone}"
    return settings.model + (f", from {settings.weights}" if settings.weights else "")


def stage(name: str) -> str:
    """Return the stage of the training process."""
    return _STAGES.get(name, name)


FILTERS: dict[str, Callable[..., str]] = {
    "percent": percent,
    "sure": sure,
    "interval": interval,
    "points": points,
    "number": number,
    "ending": ending,
    "sentence": sentence,
    "score": score,
    "pace": pace,
    "kappa": kappa,
    "names": names,
    "ago": ago,
    "strategy": strategy,
    "idea": idea,
    "stage": stage,
    "decision": decision,
    "waiting": waiting,
    "way": way,
}
"""By their names in the templates."""
