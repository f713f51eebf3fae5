"""From which certainty on a model was right often enough to be shown to people."""

from __future__ import annotations

from collections.abc import Iterable

from steepest.labelling.project.history import STANDING
from steepest.labelling.project.project import Project

HINT_SHARE = 0.8
"""So many of the predictions that were at least as sure came true, or a hint is not shown."""

FEWEST = 20
"""So many predictions say something."""

_LATEST = 100

# Not those that were accepted at once: nobody gave an answer of their own there.
_ANSWERS = f"""SELECT a.probability, a.labels = a.predicted AS hit FROM answers a
    WHERE a.kind = 'label' AND a.predicted IS NOT NULL AND a.probability IS NOT NULL
    AND a.browser NOT LIKE 'accepted:%' AND {STANDING} ORDER BY a.number DESC LIMIT ?"""  # noqa: S608


def earned_certainty(
    predictions: Iterable[tuple[float, bool]], share: float, fewest: int = FEWEST
) -> float | None:
    """Return the lowest certainty from which on enough predictions came true.

    Args:
        predictions: How sure each was, and whether it came true.
        share: So many must have, of all that were at least as sure.
        fewest: So many must have been at least as sure.

    Returns:
        None if there is no such certainty.
    """
    earned, right = None, 0
    ordered = sorted(predictions, key=lambda one: -one[0])
    for count, (certainty, hit) in enumerate(ordered, start=1):
        right += hit
        # Those that are as sure as the next one belong together.
        last = count == len(ordered) or ordered[count][0] < certainty
        if last and count >= fewest and right >= share * count:
            earned = certainty
    return earned


def hint_certainty(project: Project) -> float | None:
    """Return how sure the model must be of an image for its hint to be shown; None: never yet.

    It is measured on the latest hundred answers about images of which a model had said something.
    """
    with project.store.reading() as connection:
        rows = connection.execute(_ANSWERS, (_LATEST,)).fetchall()
    return earned_certainty(((row["probability"], bool(row["hit"])) for row in rows), HINT_SHARE)
