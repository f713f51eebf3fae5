"""Labelling a folder of images: queue, answers, pictures, retraining and statistics, no page."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steepest.labelling.project.importing import ImportReport
    from steepest.labelling.project.opening import open_pool
    from steepest.labelling.project.project import Project
    from steepest.labelling.project.records import Answer, Batch, Counts, Pick, Prediction, Task
    from steepest.labelling.project.settings import Settings
    from steepest.labelling.project.trainings import TrainingState

__all__ = [
    "Answer",
    "Batch",
    "Counts",
    "ImportReport",
    "Pick",
    "Prediction",
    "Project",
    "Settings",
    "Task",
    "TrainingState",
    "open_pool",
]

_PLACES = {
    "Answer": "records",
    "Batch": "records",
    "Counts": "records",
    "ImportReport": "importing",
    "Pick": "records",
    "Prediction": "records",
    "Project": "project",
    "Settings": "settings",
    "Task": "records",
    "TrainingState": "trainings",
    "open_pool": "opening",
}
"""Where the public names are: sheets use the project's file, and none of its models."""


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
