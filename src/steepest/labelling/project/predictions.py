"""Predictions of a model for a sample, as kept in the store."""

from __future__ import annotations

import json
from collections.abc import Sequence

from steepest.labelling.project.classes import ClassList
from steepest.labelling.project.records import Prediction

_DIGITS = 5


def pack(probabilities: Sequence[float]) -> str:
    """Return probabilities [K] of all classes as a text."""
    return json.dumps([round(float(p), _DIGITS) for p in probabilities])


def unpack(text: str, classes: ClassList) -> tuple[Prediction, ...]:
    """Return the classes that a model knew, most likely first."""
    values = json.loads(text)
    # Classes may have been added since, which that model had never heard of.
    pairs = [Prediction(classes.names[k], value) for k, value in enumerate(values)]
    return tuple(sorted(pairs, key=lambda pair: -pair.probability))


def predicted(text: str, *, multi_label: bool) -> tuple[str | None, float | None]:
    """Return the predicted label as the store keeps labels, and how likely it is.

    Where an image may have several classes, these are all that are likelier there than not, and
    the probability is that of the least certain decision.
    """
    values = json.loads(text)
    if not values:
        return None, None
    if multi_label:
        said = [k for k, value in enumerate(values) if value > 0.5]
        return json.dumps(said), min(max(value, 1 - value) for value in values)
    best = max(range(len(values)), key=values.__getitem__)
    return json.dumps([best]), values[best]
