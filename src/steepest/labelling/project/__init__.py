"""Labelling a folder of images: queue, answers, pictures, retraining and statistics, no page."""

from __future__ import annotations

from steepest.labelling.project.decisions import Decision
from steepest.labelling.project.exporting import ExportReport
from steepest.labelling.project.importing import Conflict, ImportReport
from steepest.labelling.project.listing import Scan
from steepest.labelling.project.pictures import Picture
from steepest.labelling.project.project import FOLDER_NAME, Project
from steepest.labelling.project.records import (
    Answer,
    Batch,
    Counts,
    Pick,
    Prediction,
    Resolved,
    SampleState,
    Task,
    Training,
)
from steepest.labelling.project.settings import Settings
from steepest.labelling.project.trainings import TrainingState

__all__ = [
    "FOLDER_NAME",
    "Answer",
    "Batch",
    "Conflict",
    "Counts",
    "Decision",
    "ExportReport",
    "ImportReport",
    "Pick",
    "Picture",
    "Prediction",
    "Project",
    "Resolved",
    "SampleState",
    "Scan",
    "Settings",
    "Task",
    "Training",
    "TrainingState",
]
