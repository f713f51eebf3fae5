"""Numbers and moments in words that people read at a glance."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from steepest.core.wording import counted
from steepest.labelling.project.decisions import Decision
from steepest.labelling.project.picking import VALIDATION
from steepest.labelling.web.figures import Work

AGAIN = "asked again"
"""What stands for a strategy where the file is another one than was answered before."""

_MOST_LETTERS = 36

_STAGES = {
    "looking": "looking for images",
    "reading": "reading images",
    "train": "training",
    "": "starting",
}


def percent(share: float | None) -> str:
    """Return a share in whole percent, or a dash if it is not known."""
    return "–" if share is None else f"{100 * share:.0f} %"


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
    """Return what picked a sample, as a reason."""
    if name is None:
        return "in random order, until there are new picks"
    if name == AGAIN:
        return "asked again, as its file was replaced"
    if name == VALIDATION:
        return "a random draw that models are tested on"
    if name == "spread":
        return "a typical image, before there is a model"
    return f"picked by {name}"


def decision(made: Decision) -> str:
    """Return who decided what."""
    who, count = made.annotator or "somebody", made.samples
    files = made.detail if count == 1 else f"{count} files that had changed, such as {made.detail}"
    return {
        "ask again": f"{who} had people asked again about {files}",
        "keep labels": f"{who} let the labels hold of {files}",
        "add class": f"{who} added the class {made.detail}",
        "rename class": f"{who} renamed a class: {made.detail}",
    }[made.kind]


def waiting(work: Work) -> str:
    """Return what the next training waits for; nothing while there is one."""
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


def stage(name: str) -> str:
    """Return what the training process is at."""
    return _STAGES.get(name, name)


FILTERS: dict[str, Callable[..., str]] = {
    "percent": percent,
    "interval": interval,
    "points": points,
    "number": number,
    "ending": ending,
    "score": score,
    "pace": pace,
    "kappa": kappa,
    "names": names,
    "ago": ago,
    "strategy": strategy,
    "stage": stage,
    "decision": decision,
    "waiting": waiting,
}
"""By their names in the templates."""
