"""Labelling a folder of images: queue, answers, pictures, retraining and statistics, no page."""

from __future__ import annotations

from steepest.labelling.project.importing import ImportReport
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
]
